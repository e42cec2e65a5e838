"""Calls of the CUDA API that an exchange takes on the host, counted by the profiler's record of them."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import profiler

CATEGORIES = ("cuda_runtime", "cuda_driver")
_MARK = "counted exchanges"


def count(one: Any, exchanges: int) -> dict[str, float]:
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
