"""Whose turn it is: while one process measures, the next has started and waits, by files in its folder.

Starting takes longer than measuring, and most of it is the import of torch. The next process imports while the one
before sets up its GPUs; no cell is timed until that is done, and nothing of the next touches a GPU before its turn.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

READY, GO, MEASURE = "ready", "go", "measure"
"""It has imported and waits; it may take its GPUs; it may measure."""

_TICK_S = 0.005


@dataclass(frozen=True)
class Turns:
    """The turns of one process.

    Args:
        folder: of the process, where a file stands for each word said; None: it never waits.
    """

    folder: Path | None

    def say(self, word: str) -> None:
        if self.folder is not None:
            (self.folder / word).touch()

    def wait(self, word: str, ended: Callable[[], bool] = lambda: False) -> None:
        """Wait until the word is said, or `ended` is true."""
        while self.folder is not None and not (self.folder / word).exists() and not ended():
            time.sleep(_TICK_S)
