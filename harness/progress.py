"""The lines a screen prints while it runs: one per finished cell, and one per stage of a process on GPUs."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import events
from harness.plan import Plan, Process


@dataclass
class Progress:
    """Counts cells and prints a line for each.

    Args:
        plan: the plan.
        total: cells that this run measures.
        clock: seconds since any fixed moment.
        print_line: where lines go.
    """

    plan: Plan
    total: int
    clock: Callable[[], float]
    print_line: Callable[[str], None]
    done: int = 0
    _started: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def listen(self, one: Process, event: Mapping[str, Any]) -> None:
        """Print the line of a finished cell, or how far a process has come; other events say nothing."""
        with self._lock:
            if event["event"] == events.CELL:
                self.done += 1
                self.print_line(self._line(one, event))
            elif event["event"] == events.STAGE:
                self.print_line(self._stage(one, str(event["text"])))

    def _stage(self, one: Process, text: str) -> str:
        row, arm = self.plan.rows[one.row], self.plan.arms[one.arm].name
        pair = f"pair {one.pair + 1}/{self.plan.backend.pairs}"
        return f"  {row.layout} {row.hidden} {arm} {pair}: {text}  ({self.clock() - self._started:.1f} s)"

    def _line(self, one: Process, event: Mapping[str, Any]) -> str:
        row = self.plan.rows[one.row]
        width = len(str(self.total))
        cell = f"{row.layout} {row.hidden} {row.dtype} {row.routing} T={event['tokens']:<5d}"
        pair = f" pair {one.pair + 1}/{self.plan.backend.pairs}" if self.plan.backend.pairs > 1 else ""
        seconds = self.clock() - self._started
        arm = f"{self.plan.arms[one.arm].name:<16s}{pair}"
        count = f"[{self.done:{width}d}/{self.total}]"
        return f"{count} {cell} {arm} {event['latency_us']:8.1f} us  ({seconds:.1f} s)"
