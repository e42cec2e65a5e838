"""Every run on a node: `python -P -m harness.sanitizer.offline SLOTS FOLDER [AT_A_TIME]`, as `./sanitize` does.

The record goes to FOLDER/sanitizer.parquet, the logs of each run beside it. It is written anew as each run ends, so
that a command that is cut short leaves it: runs that were not played say so there, and have not passed. A later
command plays every run again, in the place of what was there.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harness.digests import harness_digest
from harness.errors import HarnessError, UsageError
from harness.leaving import leave
from harness.records.sanitizings import SanitizerRecord, write_sanitizing
from harness.sanitizer import page, runs
from harness.sanitizer.runs import Ended, Run
from harness.surroundings import ERROR
from harness.workspace import REPOSITORY

_LIMIT_S = 90.0
_AT_A_TIME = "6"
NAME = "sanitizer"
Play = Callable[[Run, Path, Path], Sequence[Ended]]


def main(slots: Path, folder: Path, at_a_time: int, limit_s: float = _LIMIT_S, module: str = runs.RANK) -> int:
    """Play every run; 0 where each tool was silent on the sound tree and found its plant.

    Args:
        slots: folder of the trees by name.
        folder: takes the record and the logs.
        at_a_time: runs that share the GPUs, by time slices.
        limit_s: of a run.
        module: what each rank runs.
    """
    tool = runs.executable(os.environ)
    began = time.monotonic()

    def play(number: int, run: Run) -> Sequence[Ended]:
        own = folder.resolve() / f"{number}-{run.tool}-{run.arm}-{run.tree}"  # the tool starts in it
        shutil.rmtree(own, ignore_errors=True)  # no log of an earlier command may speak for this one
        own.mkdir(parents=True)
        ended = runs.play(run, tool, slots, own, limit_s, module)
        told = "; ".join(f"rank {rank} exit {one.exit_code}, errors {one.errors}" for rank, one in enumerate(ended))
        print(f"{time.monotonic() - began:6.1f} s  {run.tool} {run.arm} {run.tree}: {told}", flush=True)
        return ended

    planned = runs.planned()
    book = _Book(folder, planned, harness_digest(REPOSITORY), runs.version(tool))
    with ThreadPoolExecutor(at_a_time) as pool:
        list(pool.map(lambda number, run: book.add(number, play(number, run)), range(len(planned)), planned))
    records = book.records()
    print(page.summary(records), flush=True)
    return int(bool(page.faults(records)))


def runs_at_a_time(words: Sequence[str]) -> int:
    """How many runs share the GPUs, from what follows the folder on the command line.

    Raises:
        UsageError: no such number.
    """
    (text,) = words or [_AT_A_TIME]
    if not (text.isdecimal() and int(text)):
        raise UsageError(f"AT_A_TIME: expected a number from 1, received {text!r}.", f"Write {_AT_A_TIME}, or nothing.")
    return int(text)


@dataclass
class _Book:
    """The record file while runs end, in threads of their own.

    Args:
        folder: takes the file.
        planned: every run, in order.
        harness: the digest of it.
        version: of the tool.
    """

    folder: Path
    planned: Sequence[Run]
    harness: str
    version: str
    _ended: dict[int, Sequence[Ended]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, number: int, ended: Sequence[Ended]) -> None:
        """Take what came of a run, and write all that is known."""
        with self._lock:
            self._ended[number] = ended
            write_sanitizing(self.folder, NAME, self.records())

    def records(self) -> list[SanitizerRecord]:
        """Those of every run, played or not."""
        heading = (datetime.now(UTC).isoformat(timespec="seconds"), self.harness, self.version)
        ended = (self._ended.get(number, _NOT_PLAYED) for number in range(len(self.planned)))
        return [one for run, ranks in zip(self.planned, ended, strict=True) for one in _records(run, ranks, *heading)]


_NOT_PLAYED = (Ended(None, (), "", 0.0),) * 2


def _records(run: Run, ended: Sequence[Ended], created: str, harness: str, version: str) -> list[SanitizerRecord]:
    kernel = None if run.plant is None else run.plant.kernel
    return [
        SanitizerRecord(
            created=created,
            harness_digest=harness,
            version=version,
            tool=run.tool,
            tree=run.tree,
            plant=None if run.plant is None else run.plant.what,
            arm=run.arm,
            native_digest=runs.digest_of(ended),
            rank=rank,
            expects=kernel or page.SILENCE,
            exchanges=sum(int(str(event["exchanges"])) for event in one.said if "exchanges" in event),
            errors=one.errors,
            in_kernel=kernel is not None and one.reports_in(kernel),
            exit_code=one.exit_code,
            seconds=one.seconds,
            said=page.NOT_PLAYED if ended is _NOT_PLAYED else one.first_lines,
        )
        for rank, one in enumerate(ended)
    ]


if __name__ == "__main__":
    try:
        leave(main(Path(sys.argv[1]), Path(sys.argv[2]), runs_at_a_time(sys.argv[3:4])))
    except HarnessError as error:  # 1 would say that a tool has not passed
        print(error, file=sys.stderr)
        leave(ERROR)
