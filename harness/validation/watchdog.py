"""Ends a rank that hangs in a trial and says in what: a thread that no wait of the host or the device holds up."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from harness.validation.part import Report

STUCK = 70
"""Exit status of a rank that was ended."""

_TICK_S = 0.25


class Watchdog:
    """Watches the thread that makes it, for as long as the process lives.

    Args:
        end: ends the process.
    """

    def __init__(self, end: Callable[[int], object] = os._exit):
        self._end = end
        self._watched = threading.get_ident()
        self._deadline = float("inf")
        self._on_stuck: Callable[[], None] = lambda: None
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def over(self, limit_s: float, report: Report, say: Callable[[], None]) -> Iterator[None]:
        """A block that may take so long: else its report says where it hangs, is said, and the process ends."""

        def on_stuck() -> None:
            report.reason = f"still in {self._where()} after {limit_s:.0f} s"
            say()

        self._on_stuck, self._deadline = on_stuck, time.monotonic() + limit_s
        try:
            yield
        finally:
            self._deadline = float("inf")

    def _watch(self) -> None:
        while time.monotonic() < self._deadline:
            time.sleep(_TICK_S)
        try:
            self._on_stuck()
        finally:  # nobody else would end it
            self._end(STUCK)

    def _where(self) -> str:
        """The innermost calls of the watched thread, as far as they are this tree's."""
        frame: FrameType | None = sys._current_frames().get(self._watched)
        calls = traceback.extract_stack(frame)
        own = [one.name for one in calls if {"harness", "afdep"} & set(Path(one.filename).parts)]
        return " > ".join(own[-4:]) or "nothing of this tree"
