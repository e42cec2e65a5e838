"""The lines that a run prints: one per trial, and one per stage of a batch on GPUs."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from harness import study
from harness.core.plan import Plan
from harness.records.envelope import OK, Envelope
from harness.study import Batch

_QUIET = 200
"""From so many trials on, one in a hundredth of them has a line, beside those that are not ok."""


class Progress:
    """Counts trials.

    Args:
        plan: its program may say what a trial is (`label`) and what rows that are ok hold (`figure`).
        clock: seconds since any fixed moment.
        print_line: where lines go.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float], print_line: Callable[[str], None]):
        program: Any = study.program(plan.study)
        label, figure = getattr(program, "label", None), getattr(program, "figure", None)
        self._label: Callable[[Any], str] = (lambda trial: label(plan.settings, trial)) if label else str
        self._figure: Callable[[Sequence[Envelope]], str] = figure or (lambda rows: OK)
        self._clock, self._print = clock, print_line
        self._began = clock()
        self._lock = threading.Lock()
        self.total, self.done = 0, 0

    def stage(self, batch: Batch, text: str) -> None:
        """How far a batch has come; of the simulator nobody waits for it."""
        if batch.backend == "cuda":
            with self._lock:
                name = self._label(batch.trials[0])
                more = f" and {len(batch.trials) - 1} more" if len(batch.trials) > 1 else ""
                self._print(f"  {name}{more}: {text}  ({self._clock() - self._began:.1f} s)")

    def judged(self, trial: Any, rows: Sequence[Envelope]) -> None:
        """What came of a trial."""
        with self._lock:
            self.done += 1
            self.total = max(self.total, self.done)
            status = rows[0].status if rows else "no record"
            loud = (
                self.total < _QUIET or status != OK or self.done % (self.total // 100) == 0 or self.done == self.total
            )
            if loud:
                said = self._figure(rows) if status == OK else f"{status}: {rows[0].reason if rows else ''}"
                count = f"[{self.done:{len(str(self.total))}d}/{self.total}]"
                self._print(f"{count} {self._label(trial)}: {said}  ({self._clock() - self._began:.1f} s)")
