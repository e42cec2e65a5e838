"""One rank of the external arm's bare rows on the CPU, over gloo: proves exchanges, or sees one go wrong."""

import os
import sys
from types import SimpleNamespace

import torch.distributed as dist

from afdep import Load, routing
from afdep.errors import MismatchError
from afdep.layout import Layout
from harness.screen_config import Row
from harness.device.nccl import NcclEnd, Wire
from harness.plan import Cell
from tests.harness.samples import plan


class Crossed(Wire):
    """A wire that turns the rows about."""

    def send(self, into, rows, counts_in, counts_out):
        super().send(into, rows.flip(0).contiguous(), counts_in, counts_out)


def main(layout: str, dtype: str, wire: str) -> str:
    dist.init_process_group("gloo")
    row = Row(layout, 256, dtype, "random", None, 24)
    session = SimpleNamespace(row=row, plan=plan())
    ends = {"straight": Wire, "crossed": Crossed}
    end = NcclEnd(session, dist.get_rank(), ends[wire]("cpu", dist.group.WORLD), {}, "torch")
    sources = range(Layout.parse(layout).attention_ranks)
    loads = [Load([routing.make("random", 16, 24, 4, seed * 8 + source) for source in sources]) for seed in range(3)]
    try:
        end.prove(loads, Cell(16, 16))
    except MismatchError as error:
        return str(error).splitlines()[0]
    return f"{end.role} ok"


if __name__ == "__main__":
    print(main(*sys.argv[1:]), flush=True)
    os._exit(0)
