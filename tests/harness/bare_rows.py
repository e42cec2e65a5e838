"""The ranks of the external arm's bare rows on the CPU, over gloo: each proves exchanges, or sees one go wrong."""

import json
import multiprocessing
import sys

import torch.distributed as dist

from afdep import Layout, Load, MismatchError, routing
from harness.core.launch import _free_port
from harness.ranks.cells import Cell, Row
from harness.ranks.external import NcclEnd, Wire
from tests.harness.samples import EXCHANGE, on_gpus


class Crossed(Wire):
    """A wire that turns the rows about."""

    def send(self, into, rows, counts_in, counts_out):
        super().send(into, rows.flip(0).contiguous(), counts_in, counts_out)


def rank_of(rank: int, size: int, port: int, case: list[str], said) -> None:
    layout, dtype, wire = case
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    what = Cell("nccl", Row(layout, 256, dtype, "random", 24), EXCHANGE, on_gpus(), tokens=0)
    ends = {"straight": Wire, "crossed": Crossed}
    end = NcclEnd(what, rank, ends[wire]("cpu", dist.group.WORLD), {}, "torch")
    sources = range(Layout.parse(layout).attention_ranks)
    loads = [Load([routing.make("random", 16, 24, 4, seed * 8 + source) for source in sources]) for seed in range(3)]
    try:
        end.prove(loads, 16)
        said.put((rank, f"{end.roles[rank]} ok"))
    except MismatchError as error:
        said.put((rank, str(error).splitlines()[0]))


def ranks(case: list[str]) -> list[str]:
    """What each rank says: they are forked, so that torch is imported once."""
    size, port = Layout.parse(case[0]).num_ranks, _free_port()
    processes = multiprocessing.get_context("fork")
    said = processes.SimpleQueue()
    started = [processes.Process(target=rank_of, args=(rank, size, port, case, said)) for rank in range(size)]
    for one in started:
        one.start()
    found = dict(said.get() for _ in started)
    for one in started:
        one.kill()
    return [found[rank] for rank in range(size)]


if __name__ == "__main__":
    print(json.dumps([ranks(case.split()) for case in sys.argv[1:]]))
