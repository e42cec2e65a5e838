"""What one rank of a device test does, in a process of its own; `run` starts them all and returns what each said."""

import os
import socket
from typing import Any

SHAPE = {"layout": "1A1F", "hidden": 256, "num_experts": 16, "top_k": 4, "capacity": 64, "timeout_s": 2.0}
TOKENS = 16


def run(scenario: str) -> list[str]:
    """What each rank raised, as `Class: first line`, or `ok`."""
    import torch.multiprocessing as multiprocessing

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    said = context.SimpleQueue()
    ranks = [context.Process(target=_rank, args=(rank, port, scenario, said)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(timeout=120)
    return [text for _, text in sorted(said.get() for _ in ranks)]


def _rank(rank: int, port: int, scenario: str, said: Any) -> None:
    import torch
    import torch.distributed as dist

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo", rank=rank, world_size=2)
    try:
        globals()[scenario](rank)
        said.put((rank, "ok"))
    except Exception as error:
        said.put((rank, f"{type(error).__name__}: {str(error).splitlines()[0]}"))
    dist.barrier()
    os._exit(0)


def _buffer(**changes: Any) -> Any:
    from afdep.cuda import DeviceBuffer

    return DeviceBuffer(None, **(SHAPE | changes))


def _routes(expert: int = 0) -> Any:
    import torch

    return (torch.arange(4, device="cuda").repeat(TOKENS, 1) + expert).contiguous()


def _rows(hidden: int = 256) -> Any:
    import torch

    return torch.ones((TOKENS, hidden), dtype=torch.bfloat16, device="cuda")


def _exchange(buffer: Any, rank: int, routes: Any = None, rows: Any = None) -> Any:
    """One exchange whose FFN passes on what it receives; a source's result."""
    if rank == 0:
        received = buffer.ffn_receive(bucket=TOKENS)
        buffer.ffn_reply(received, received.x)
        buffer.synchronize()
        return None
    buffer.source_dispatch(_rows() if rows is None else rows, _routes() if routes is None else routes, bucket=TOKENS)
    y = buffer.source_collect()
    buffer.synchronize()
    return y


def other_hidden(rank: int) -> None:
    _buffer(hidden=256 if rank else 512)


def other_switch(rank: int) -> None:
    _buffer(arm="afdep[AFDEP_UNION_NOTIFY=1]" if rank else "afdep")


def silent_peer(rank: int) -> None:
    buffer = _buffer()
    if rank == 1:
        _exchange(buffer, rank)


def refused_call(rank: int) -> None:
    _exchange(_buffer(), rank, rows=_rows(hidden=128) if rank else None)


def wrong_id(rank: int) -> None:
    _exchange(_buffer(), rank, routes=_routes(expert=13) if rank else None)


def wrong_order(rank: int) -> None:
    buffer = _buffer()
    if rank == 0:
        buffer.ffn_reply(None, None)
    else:
        buffer.source_collect()


def dead_afterwards(rank: int) -> None:
    buffer = _buffer()
    if rank == 1:
        try:
            _exchange(buffer, rank)
        except Exception:
            _exchange(buffer, rank)


def torch_dtype(rank: int) -> None:
    import torch

    assert _buffer(dispatch_dtype=torch.bfloat16).shape.dispatch_dtype == "bf16"


def mapped_windows(rank: int) -> None:
    buffer = _buffer(maker="ipc")
    y = _exchange(buffer, rank)
    assert y is None or bool((y == 4).all())
    buffer.close()


def _payloads(tokens: int) -> list[Any]:
    import numpy as np

    from afdep import reference, routing

    sent = [(reference.payload(tokens, 256, seed), routing.make("random", tokens, 16, 4, seed)) for seed in range(8)]
    results = [reference.combine(x, ids, num_ffn_ranks=1, num_experts=16, expert=lambda x, e: x) for x, ids in sent]
    return [(x, ids.astype(np.int32), y) for (x, ids), y in zip(sent, results, strict=True)]


def thousand_exchanges(rank: int) -> None:
    import torch

    from afdep.cuda.memory import to_device

    buffer = _buffer(capacity=2048)
    for tokens in (1, 32, 2048):
        if rank == 0:
            for _ in range(1000):
                received = buffer.ffn_receive(bucket=tokens)
                buffer.ffn_reply(received, received.x)
            buffer.synchronize()
            continue
        loads = [tuple(to_device(part) for part in load) for load in _payloads(tokens)]
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        for index in range(1000):
            x, ids, expected = loads[index % len(loads)]
            buffer.source_dispatch(x, ids, bucket=tokens)
            wrong += (buffer.source_collect().view(torch.int16) != expected.view(torch.int16)).sum()
        buffer.synchronize()
        assert int(wrong) == 0, f"{int(wrong)} wrong elements at T={tokens}"


def thousand_symmetric_exchanges(rank: int) -> None:
    global SHAPE
    SHAPE = SHAPE | {"arm": "m2n"}
    thousand_exchanges(rank)
