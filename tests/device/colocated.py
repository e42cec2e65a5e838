"""Scenarios of ranks that share GPUs under MPS; a layout takes the first ranks of the company."""

import logging
import time
from typing import Any

import numpy as np
import torch

from afdep.cuda import Buffer
from afdep.routing import Load
from harness.device import proving
from tests.device.exchanges import (
    captured,
    drawn,
    exchange,
    is_poisoned,
    on_gpu,
    pass_on,
    passed_on,
    same,
)
from tests.device.player import Stage, raised

ENDS_WITH_A_FAILURE = False
LAYOUTS = ("2A1F", "2A2F", "3A1F", "1A3F")
COUNTS = ((7, 1), (8, 0), (0, 8), (4, 4), (8, 8), (0, 0))


def _buffer(stage: Stage, layout: str, **changes: Any) -> Buffer:
    return stage.buffer(layout, **({"num_experts": 24, "timeout_s": 3.0, "first_timeout_s": 10.0} | changes))


def share_of_sms(stage: Stage) -> int:
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def exact_2a1f(stage: Stage) -> dict[str, str]:
    return _exact(stage, "2A1F")


def exact_2a2f(stage: Stage) -> dict[str, str]:
    return _exact(stage, "2A2F")


def exact_3a1f(stage: Stage) -> dict[str, str]:
    return _exact(stage, "3A1F")


def exact_1a3f(stage: Stage) -> dict[str, str]:
    return _exact(stage, "1A3F")


def _exact(stage: Stage, layout: str) -> dict[str, str]:
    """By arm, what a proof of three exchanges each of 1 and 33 tokens says."""
    if not stage.plays(layout):
        return {}
    return {arm: raised(lambda a=arm: _prove(_buffer(stage, layout, arm=a))) for arm in ("m2n", "afdep")}


def _prove(buffer: Buffer) -> None:
    sources = range(buffer.layout.attention_ranks)
    for tokens in (1, 33):
        loads = [Load([drawn(buffer, tokens, 10 * seed + source)[1] for source in sources]) for seed in range(3)]
        proving.prove(buffer, loads, tokens, 7)
    buffer.close()


def counts_of_replays(stage: Stage) -> None:
    """Captured with four tokens on each source; replayed with other counts, which lie in words on the GPUs."""
    layout = "2A1F"
    if not stage.plays(layout):
        return
    buffer = _buffer(stage, layout)
    rows, ids = drawn(buffer, 8, stage.rank)
    x, routes = on_gpu(rows, ids)
    word, collected = torch.tensor([4], dtype=torch.int32, device="cuda"), []
    exchange(buffer, 8)

    def enqueue() -> None:
        if buffer.role == "ffn":
            pass_on(buffer, 8)
            return
        buffer.source_dispatch(x, routes, bucket=8, num_tokens=word)
        collected.append(buffer.source_collect())

    graph = captured(enqueue)
    for counts in COUNTS * 3:
        count = counts[stage.rank - 1] if stage.rank else 0
        word.fill_(count)
        graph.replay()
        buffer.synchronize()
        for y in collected:
            assert same(y, passed_on(buffer, rows, ids, num_tokens=count)), f"another result for {counts}"
    buffer.close()


def idle_then_empty(stage: Stage) -> None:
    """The first exchange comes after five idle seconds; then one source has no token for a hundred exchanges."""
    layout = "2A1F"
    if not stage.plays(layout):
        return
    buffer = _buffer(stage, layout)
    time.sleep(5)
    exchange(buffer, 8)
    rows, ids = drawn(buffer, 8 if stage.rank == 1 else 0, 1)
    x, routes = on_gpu(rows.reshape(-1, 256), np.ascontiguousarray(ids.reshape(-1, 4)))
    for _ in range(100):
        if stage.rank == 0:
            pass_on(buffer, 8)
            continue
        buffer.source_dispatch(x, routes, bucket=8)
        assert same(buffer.source_collect(), passed_on(buffer, rows, ids))
    buffer.synchronize()
    buffer.close()


def symmetric_asked_for(stage: Stage) -> dict[str, Any]:
    """Ranks that share a GPU ask for symmetric memory: who made the windows, and what the log says."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("afdep").addHandler(handler)
    buffer = _buffer(stage, "2A2F", maker="symmetric")
    exchange(buffer)
    made = buffer.identity["windows"]
    buffer.close()
    return {"windows": made, "log": lines}


def silent_source(stage: Stage) -> dict[str, Any]:
    return _without(stage, silent=3)


def silent_ffn(stage: Stage) -> dict[str, Any]:
    return _without(stage, silent=1)


def silent_source_of_the_symmetric_arm(stage: Stage) -> dict[str, Any]:
    return _without(stage, silent=3, arm="m2n")


def _without(stage: Stage, silent: int, arm: str = "afdep") -> dict[str, Any]:
    """2A2F: whole exchanges, then a rank stays away: what the others raise, when, and how many results are stale."""
    buffer = _buffer(stage, "2A2F", timeout_s=2.0, arm=arm)
    for seed in range(3):
        exchange(buffer, seed=seed)
    stage.barrier()
    if stage.rank == silent:
        return {}
    y: list[Any] = []
    started = time.monotonic()
    said = raised(lambda: exchange(buffer, seed=9, y=y))
    if said == "ok":  # an FFN rank that has all rows does not need the silent one before the next exchange
        said = raised(lambda: exchange(buffer, seed=10, y=y))
    seconds = time.monotonic() - started
    return {"said": said, "seconds": seconds, "stale": sum(not is_poisoned(one) for one in y)}
