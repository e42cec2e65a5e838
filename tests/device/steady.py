"""Scenarios of an FFN rank 0 and a source 1, alone on their GPUs: long runs, graphs, several Buffers, tear-down."""

import gc
import random
from pathlib import Path
from typing import Any

import torch

from afdep.cuda import Buffer
from afdep.cuda.memory import to_device
from afdep.routing import Load
from harness.device import proving
from tests.device.exchanges import captured, drawn, exchange, on_gpu, pass_on, passed_on, rows_per_expert, same
from tests.device.player import Stage

ENDS_WITH_A_FAILURE = False
ARMS = ("m2n", "afdep", "afdep@bd4db4da", "afdep[AFDEP_GRID_SYNC_EXIT=1]")
LARGE = {"hidden": 2048, "num_experts": 128, "top_k": 8, "capacity": 2048}
ROUTES = 5
"""That the replays of a graph go through, in turn."""
FREE_BYTES = 4 << 20
"""Less than two windows: a leak of one an exchange would be far more."""


def exact_exchange(stage: Stage) -> None:
    buffer = stage.buffer()
    exchange(buffer)
    buffer.close()
    buffer.close()


def exact_arms(stage: Stage) -> None:
    """Every arm and dispatch dtype through the expert transform, what was received included."""
    for arm, dtype in [*((arm, torch.bfloat16) for arm in ARMS), ("m2n", "fp8"), ("afdep", torch.float8_e4m3fn)]:
        buffer = stage.buffer(arm=arm, dispatch_dtype=dtype, hidden=1024, first_timeout_s=20.0)
        for tokens in (1, 33):
            proving.prove(buffer, [Load([drawn(buffer, tokens, seed)[1]]) for seed in range(3)], tokens, 7)
            stage.barrier()
        buffer.close()


def thousand_small(stage: Stage) -> None:
    for arm in ("m2n", "afdep"):
        _thousand(stage.buffer(arm=arm, capacity=2048, first_timeout_s=20.0))


def thousand_large(stage: Stage) -> None:
    for arm in ("m2n", "afdep"):
        _thousand(stage.buffer(arm=arm, first_timeout_s=20.0, **LARGE))


def _thousand(buffer: Buffer) -> None:
    """A thousand exchanges for each token count, each of fresh payload, free-running.

    All of a token's rows come back as they went, so that it collects top_k times its row: exact, and another for each.
    """
    for tokens in (1, 32, 2048):
        if buffer.role == "ffn":
            for _ in range(1000):
                pass_on(buffer, tokens)
            buffer.synchronize()
            continue
        ids = [to_device(drawn(buffer, tokens, seed)[1]) for seed in range(4)]
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        for index in range(1000):
            x = torch.randint(-128, 128, (tokens, buffer.shape.hidden), device="cuda", dtype=torch.int32) / 32
            buffer.source_dispatch(x.bfloat16(), ids[index % 4], bucket=tokens)
            y = buffer.source_collect()
            wrong += (y.view(torch.int16) != (x * buffer.shape.top_k).bfloat16().view(torch.int16)).sum()
        buffer.synchronize()
        assert int(wrong) == 0, f"{int(wrong)} wrong elements at T={tokens}"
    buffer.close()


class _Replayed:
    """A graph of one exchange whose source writes the number of the replay into its rows, and compares what returns.

    Every replay has other rows in all columns, and other routes than the one before.
    """

    def __init__(self, buffer: Buffer, tokens: int, seed: int):
        self.buffer, self.tokens = buffer, tokens
        shape = buffer.shape
        self._routes = torch.stack([to_device(drawn(buffer, tokens, 10 * seed + one)[1]) for one in range(ROUTES)])
        self._ids = torch.empty_like(self._routes[0])
        self._x = torch.zeros((tokens, shape.hidden), dtype=torch.bfloat16, device="cuda")
        self._token = torch.arange(tokens, device="cuda")
        self._place = 7 * self._token[:, None] + 3 * torch.arange(shape.hidden, device="cuda")
        self._index = torch.zeros((), dtype=torch.int64, device="cuda")
        self.wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        exchange(buffer, tokens)
        self.graph = captured(self._enqueue)

    def _enqueue(self) -> None:
        if self.buffer.role == "ffn":
            pass_on(self.buffer, self.tokens)
            return
        self._index += 1
        torch.index_select(self._routes, 0, (self._index % ROUTES).view(1), out=self._ids.view(1, *self._ids.shape))
        self._x.copy_((self._place + 11 * self._index) % 128)
        for column, value in enumerate((self._index // 128, self._index % 128, self._token % 128)):
            self._x[:, column] = value
        self.buffer.source_dispatch(self._x, self._ids, bucket=self.tokens)
        y = self.buffer.source_collect()
        self.wrong += (y != self._x * self.buffer.shape.top_k).sum()

    def check(self, replays: int) -> None:
        self.buffer.synchronize()
        if self.buffer.role == "attention":
            assert int(self._index) == replays
            assert int(self.wrong) == 0, f"{int(self.wrong)} wrong elements in {replays} replays"


def ten_thousand_replays(stage: Stage) -> None:
    for arm in ("m2n", "afdep"):
        replayed = _Replayed(stage.buffer(arm=arm), 16, 1)
        for _ in range(10_000):
            replayed.graph.replay()
        replayed.check(10_000)
        replayed.buffer.close()


def two_graphs_of_one_buffer(stage: Stage) -> None:
    buffer = stage.buffer(capacity=128)
    _in_random_order([_Replayed(buffer, 8, 1), _Replayed(buffer, 128, 2)])
    buffer.close()


def two_buffers(stage: Stage) -> None:
    buffers = [stage.buffer(capacity=128), stage.buffer(capacity=128, arm="m2n")]
    _in_random_order([_Replayed(buffers[0], 8, 1), _Replayed(buffers[1], 128, 2), _Replayed(buffers[0], 128, 3)])
    for buffer in buffers:
        buffer.close()


def _in_random_order(graphs: list[_Replayed]) -> None:
    order = random.Random(7).choices(range(len(graphs)), k=1000)  # the same on every rank
    for choice in order:
        graphs[choice].graph.replay()
    for index, graph in enumerate(graphs):
        graph.check(order.count(index))


def host_counts(stage: Stage) -> None:
    """Counts are asked for, and read once a later exchange has gone over the memory that they came from."""
    buffer, pending = stage.buffer(), []
    for seed in range(4):
        rows, ids = drawn(buffer, 16, seed)
        if stage.rank == 0:
            received = buffer.ffn_receive(bucket=16, host_counts=seed != 2)
            buffer.ffn_reply(received, received.x)
            pending.append((received, rows_per_expert(to_device(ids), 16)))
        else:
            buffer.source_dispatch(*on_gpu(rows, ids), bucket=16)
            buffer.source_collect()
    buffer.synchronize()
    for seed, (received, expected) in enumerate(pending):
        found = received.host_counts
        assert (found is None) == (seed == 2)
        assert found is None or (list(found.rows), found.total) == (expected, 64)
    buffer.close()


def forced_windows(stage: Stage) -> dict[str, Any]:
    """The makers that served where each was asked for: two GPUs have both."""
    served = {}
    for maker in (None, "symmetric", "ipc"):
        buffer = stage.buffer(maker=maker)
        exchange(buffer)
        served[str(maker)] = buffer.identity["windows"]
        buffer.close()
    return served


def hundred_buffers(stage: Stage) -> dict[str, Any]:
    """What a hundred Buffers, made, used and given back, leave behind: bytes and file descriptors."""
    found = {}
    for maker in ("ipc", "symmetric"):
        _make_and_close(stage, maker, 5)
        before = _resources(stage)
        _make_and_close(stage, maker, 50)
        after = _resources(stage)
        found[maker] = {"bytes": before[0] - after[0], "descriptors": after[1] - before[1]}
    return found


def _make_and_close(stage: Stage, maker: Any, times: int) -> None:
    for _ in range(times):
        buffer = stage.buffer(maker=maker)
        exchange(buffer)
        buffer.close()


def _resources(stage: Stage) -> tuple[int, int]:
    stage.barrier()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    stage.barrier()
    return torch.cuda.mem_get_info()[0], len(list(Path("/proc/self/fd").iterdir()))


def collected_in_place(stage: Stage) -> None:
    """`out=` takes the replies."""
    buffer = stage.buffer()
    rows, ids = drawn(buffer, 16, 5)
    if stage.rank == 0:
        pass_on(buffer, 16)
        buffer.synchronize()
    else:
        y = torch.empty((16, 256), dtype=torch.bfloat16, device="cuda")
        buffer.source_dispatch(*on_gpu(rows, ids), bucket=16)
        buffer.source_collect(out=y)
        buffer.synchronize()
        assert same(y, passed_on(buffer, rows, ids))
    buffer.close()
