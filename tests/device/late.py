"""Scenarios of an FFN rank 0 and a source 1 that are late for each other."""

import time
from typing import Any

from tests.device.exchanges import captured, drawn, exchange, on_gpu, pass_on, passed_on, same
from tests.device.player import Stage, raised

ENDS_WITH_A_FAILURE = True
LATE_S, APART_S = 20, 30


def first_exchange_may_be_late(stage: Stage) -> dict[str, Any]:
    """Rank 0 is late for two exchanges; the first has a longer time-out."""
    buffer = stage.buffer(first_timeout_s=60.0, timeout_s=5.0)
    if stage.rank == 0:
        time.sleep(LATE_S)
    exchange(buffer)
    if stage.rank == 0:
        stage.wait_for("reported", at_most_s=LATE_S)
        return {"said": raised(lambda: exchange(buffer))}
    started = time.monotonic()
    said = raised(lambda: exchange(buffer))
    seconds = time.monotonic() - started
    stage.leave("reported")
    return {"said": said, "seconds": seconds}


def graphs_captured_apart(stage: Stage) -> float:
    """Both exchange once; rank 0 captures and replays at once, rank 1 so many seconds later; all replays differ."""
    buffer = stage.buffer(first_timeout_s=60.0, timeout_s=60.0)
    exchange(buffer)
    rows, ids = drawn(buffer, 16, 3)
    x, routes = on_gpu(rows, ids)
    y = []

    def enqueue() -> None:
        if stage.rank == 0:
            pass_on(buffer, 16)
            return
        buffer.source_dispatch(x, routes, bucket=16)
        y.append(buffer.source_collect())

    started = time.monotonic()
    if stage.rank == 1:
        time.sleep(APART_S)
    graph = captured(enqueue)
    for seed in range(3, 6):
        rows, ids = drawn(buffer, 16, seed)
        for held, new in zip((x, routes), on_gpu(rows, ids), strict=True):
            held.copy_(new)
        graph.replay()
        buffer.synchronize()
        assert all(same(one, passed_on(buffer, rows, ids)) for one in y)
    buffer.close()
    return time.monotonic() - started
