"""Round trips on GPUs: exchanges one behind the other in a graph, or call by call, between events of the device.

Where the host makes every call, the calls of the CUDA API that an exchange takes are counted by the profiler.
"""

import itertools
import json
import math
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import profiler

from harness.ranks.cells import Backend, DeviceTiming
from harness.ranks.group import Measurement

CATEGORIES = ("cuda_runtime", "cuda_driver")
_MARK = "counted exchanges"
Batch = Callable[[], None]
"""Enqueues a fixed number of exchanges: a replay."""


@dataclass(frozen=True)
class Repeatable:
    """An exchange that can be enqueued again and again.

    Args:
        enqueue: one exchange, on the current stream.
        settle: waits for all that is enqueued, and raises what went wrong on the device.
    """

    enqueue: Callable[[], None]
    settle: Callable[[], None]


def measure(backend: Backend, mode: str, rank: int, one: Repeatable) -> Measurement:
    """Time an exchange; collective.

    Args:
        backend: how often and how.
        mode: graph: replays of a captured graph; eager: each call made by the host, its calls counted afterwards.
        rank: this one.
        one: the exchange.
    """
    timing, exchanges = _timing(backend), backend.num_exchanges
    make = {"graph": _captured, "eager": _called}[mode]
    batch = make(one, exchanges)
    if timing.least_replay_us:
        exchanges = _enough(backend, batch, exchanges, one)
        batch = make(one, exchanges)
    sample = {"device": _free_running, "host": _behind_barriers}[timing.rendezvous]
    samples, host_s = sample(backend, batch, one)
    calls = count_calls(one, backend.num_exchanges) if mode == "eager" else None
    return Measurement(
        {rank: [sample_ms * 1e3 / exchanges for sample_ms in samples]},
        exchanges,
        statistics.median(host_s) * 1e6 / exchanges,
        calls,
    )


def _timing(backend: Backend) -> DeviceTiming:
    assert backend.device is not None
    return backend.device


def _captured(one: Repeatable, exchanges: int) -> Batch:
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(exchanges):
            one.enqueue()
    replay: Batch = graph.replay
    return replay


def _called(one: Repeatable, exchanges: int) -> Batch:
    def batch() -> None:
        for _ in range(exchanges):
            one.enqueue()

    return batch


def _enough(backend: Backend, batch: Batch, exchanges: int, one: Repeatable) -> int:
    """How many exchanges take the least time of a replay; the same on all ranks."""
    timing = _timing(backend)
    samples, _ = _behind_barriers(backend, batch, one)
    sample_ms = statistics.median(samples)
    needed = max(exchanges, math.ceil(timing.least_replay_us / (sample_ms * 1e3 / exchanges)))
    by_rank: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(by_rank, needed)
    return max(by_rank)


def _behind_barriers(backend: Backend, batch: Batch, one: Repeatable) -> tuple[list[float], list[float]]:
    """Milliseconds of the device, and seconds of the host, of replays that each start behind a meeting of all ranks."""
    timing = _timing(backend)
    samples, host_s = [], []
    for _ in range(timing.warm_up + timing.replays):
        start, end = _event(), _event()
        meet(backend.ranks_per_gpu)
        start.record()
        host_s.append(_timed(batch))
        end.record()
        one.settle()
        samples.append(float(start.elapsed_time(end)))
    return samples[timing.warm_up :], host_s[timing.warm_up :]


def _free_running(backend: Backend, batch: Batch, one: Repeatable) -> tuple[list[float], list[float]]:
    """The same of replays back to back, with an event between each two.

    The untimed replays ahead are the rendezvous: a source's exchange ends when every FFN rank has replied, and an FFN
    rank replies when every source has sent, so where the first event stands on the device no rank is more than an
    exchange from any other, and no host is waited for.
    """
    timing = _timing(backend)
    meet(backend.ranks_per_gpu)
    events, host_s = [_event()], []
    for _ in range(timing.warm_up):
        batch()
    events[0].record()
    for _ in range(timing.replays):
        host_s.append(_timed(batch))
        events.append(_event())
        events[-1].record()
    one.settle()
    return [float(a.elapsed_time(b)) for a, b in itertools.pairwise(events)], host_s


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)


def _timed(batch: Batch) -> float:
    started = time.perf_counter()
    batch()
    return time.perf_counter() - started


def meet(ranks_per_gpu: int) -> None:
    """Wait until every rank is here and its GPU idle; collective.

    Hosts leave a barrier of the process group tens of microseconds apart, which a replay of few exchanges would count.
    Where each rank has a GPU of its own the GPUs meet once more, and a host goes on as its own GPU has met the others'.
    """
    torch.cuda.synchronize()
    dist.barrier()
    if ranks_per_gpu == 1:
        _gpus().barrier(channel=0)
        torch.cuda.synchronize()


@cache
def _gpus() -> Any:
    """The handle of a small tensor in torch's symmetric memory; its making is collective."""
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    from torch.distributed import _symmetric_memory as symmetric_memory

    device = torch.device("cuda", torch.cuda.current_device())
    memory = symmetric_memory.empty(64, dtype=torch.int32, device=device)
    memory.zero_()
    torch.cuda.synchronize()
    return symmetric_memory.rendezvous(memory, dist.group.WORLD)


def count_calls(one: Any, exchanges: int) -> dict[str, float]:
    """Calls an exchange, by name; collective.

    Args:
        one: a Repeatable.
        exchanges: enqueued to be counted.
    """
    kinds = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    with profiler.profile(activities=kinds) as profile:
        with profiler.record_function(_MARK):
            for _ in range(exchanges):
                one.enqueue()
        one.settle()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8"))
    return per_exchange(trace["traceEvents"], exchanges)


def per_exchange(events: Iterable[Mapping[str, Any]], exchanges: int) -> dict[str, float]:
    """Calls an exchange by name, of those in the trace that lie within the marked range."""
    held = list(events)
    mark = next(one for one in held if one.get("name") == _MARK and "dur" in one)
    begin, end = float(mark["ts"]), float(mark["ts"]) + float(mark["dur"])
    inside = (one for one in held if one.get("cat") in CATEGORIES and begin <= float(one["ts"]) <= end)
    names = Counter(str(one["name"]) for one in inside)
    return {name: calls / exchanges for name, calls in sorted(names.items())}
