"""Trials on a node without Hydra or a compiler: `python -P -m harness.faults.offline FOLDER OUT`.

FOLDER holds the job and its libraries, as `python -m harness faults to=FOLDER` makes them: its `./faults`.
The record goes into OUT, with a page beside it; `source=` makes a page of it that has the hunt too. It is written anew
with each trial, so that a command that is cut short leaves it: trials that were not played say so there.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harness.decode import decode
from harness.faults import page, recording
from harness.faults.judging import Outcome
from harness.faults.on_gpus import Job, play_all
from harness.faults.trials import Trial
from harness.leaving import leave
from harness.records.faults import read_faults, rewrite_faults
from harness.records.old_files import own_name
from harness.validation import on_gpus

JOB, LIBRARIES, TREE, COMMAND = "job.json", "libraries", "tree", "faults"
"""What lies in the folder: the job, the libraries, what they are played with, and the command."""

_COMMAND = f"""#!/bin/sh
# ./{COMMAND}: play the trials of this folder on two GPUs or more. The record goes to out/, or to $OUT.
cd "$(dirname "$0")" || exit 4
PYTHONPATH="$PWD/{TREE}" exec "${{PYTHON:-python3}}" -P -m harness.faults.offline . "${{OUT:-out}}"
"""


def write(folder: Path, job: Job) -> None:
    """Write a job and its command into a folder that has the libraries."""
    (folder / JOB).write_text(json.dumps(dataclasses.asdict(job), indent=1) + "\n", encoding="utf-8")
    command = folder / COMMAND
    command.write_text(_COMMAND, encoding="utf-8")
    command.chmod(0o755)


def read(folder: Path) -> Job:
    """The job of a folder."""
    data: Mapping[str, object] = json.loads((folder / JOB).read_text(encoding="utf-8"))
    return decode(Job, data)


def main(folder: Path, out: Path, say: Callable[[str], None]) -> int:
    """Play the job of a folder; the exit status is that of the verb."""
    started, job = time.monotonic(), read(folder)
    book = _Book(out / f"{own_name('faults')}.parquet", job.trials, say)
    gpus = on_gpus.found()
    say(f"{len(job.trials)} trials, {job.limit_s:.0f} s at the most, on {_words(gpus)}")
    for one in play_all(job, folder / LIBRARIES, gpus, say, listen=book.add):
        book.add(one)
    path = book.path
    recording.report(path, path.with_suffix(".md"))
    kept = read_faults(path)
    say(page.summary(kept))
    say(f"written: {path}, {len(kept)} trials in {time.monotonic() - started:.0f} s")
    return recording.status_of(kept)


@dataclass
class _Book:
    """The record file while trials end: whatever is known stands in it.

    Args:
        path: of the file.
        trials: all that are to be played, in order.
        say: told of each trial once.
    """

    path: Path
    trials: Sequence[Trial]
    say: Callable[[str], None]
    _outcomes: dict[Trial, Outcome] = field(default_factory=dict)

    def add(self, one: Outcome) -> None:
        """Take what came of a trial, for a second time where its start has ended."""
        if self._outcomes.get(one.trial) == one:
            return
        self.say(_line(one))
        self._outcomes[one.trial] = one
        known = recording.with_missing(self.trials, self._outcomes)
        rewrite_faults(self.path, recording.of_gpus(known, f"./{COMMAND}", datetime.now(UTC)))


def _words(gpus: on_gpus.Gpus | str) -> str:
    return gpus if isinstance(gpus, str) else f"{gpus.count} x {gpus.name}"


def _line(one: Outcome) -> str:
    said = "" if one.reason is None else f": {one.reason}"
    return f"{one.outcome}, {one.exchanges} exchanges, {one.seconds:.2f} s: {one.trial.label}{said}"


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), Path(sys.argv[2]), lambda line: print(line, flush=True)))
