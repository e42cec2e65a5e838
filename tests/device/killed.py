"""A rank that is killed in the middle of a loop of exchanges."""

import os
import signal
import time
from typing import Any

from tests.device.exchanges import drawn, exchange, is_poisoned, on_gpu
from tests.device.player import Stage

ENDS_WITH_A_FAILURE = True
BEFORE = 50
KILLED = "killed"


def source_of_one_to_one(stage: Stage) -> None:
    _loop(stage, "1A1F", victim=1)


def source_of_two_to_two(stage: Stage) -> None:
    _loop(stage, "2A2F", victim=3)


def ffn_of_two_to_two(stage: Stage) -> None:
    _loop(stage, "2A2F", victim=1)


def _loop(stage: Stage, layout: str, victim: int) -> None:
    """Exchange until somebody is said to be gone; raised with the time since the kill and the stale results."""
    buffer = stage.buffer(layout, first_timeout_s=30.0)
    y: list[Any] = []
    for index in range(10 * BEFORE):
        if index == BEFORE and stage.rank == victim:
            _begin_exchange(buffer)
            stage.leave(KILLED)
            os.kill(os.getpid(), signal.SIGKILL)
        y.clear()
        try:
            exchange(buffer, seed=index % 4, y=y)
        except Exception as error:
            since = time.monotonic() - (stage.found(KILLED) or float("nan"))
            stale = [one for one in y if not is_poisoned(one)]
            raise RuntimeError(f"after {since:.2f} s, stale {len(stale)}, {type(error).__name__}: {error}") from error


def _begin_exchange(buffer: Any) -> None:
    if buffer.role == "ffn":
        buffer.ffn_receive(bucket=16)
    else:
        buffer.source_dispatch(*on_gpu(*drawn(buffer, 16, 0)), bucket=16)
