"""Trials on a node without Hydra or a compiler: `python -P -m harness.faults.offline FOLDER OUT`.

FOLDER holds the job and its libraries, as `python -m harness faults to=FOLDER` makes them: its `./faults`.
The record goes into OUT, with a page beside it; `source=` makes a page of it that has the hunt too.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from harness.decode import decode
from harness.faults import page, recording
from harness.faults.judging import Outcome
from harness.faults.on_gpus import Job, play_all
from harness.leaving import leave
from harness.records.faults import read_faults, write_faults
from harness.validation import on_gpus

JOB, LIBRARIES, TREE, COMMAND = "job.json", "libraries", "tree", "faults"
"""What lies in the folder: the job, the libraries, what they are played with, and the command."""

_COMMAND = f"""#!/bin/sh
# ./{COMMAND}: play the trials of this folder on two GPUs or more. The record goes to out/.
cd "$(dirname "$0")" || exit 4
PYTHONPATH="$PWD/{TREE}" exec "${{PYTHON:-python3}}" -P -m harness.faults.offline . out
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
    started, outcomes = time.monotonic(), []
    for one in play_all(read(folder), folder / LIBRARIES, on_gpus.found(), say):
        say(_line(one))
        outcomes.append(one)
    records = recording.of_gpus(outcomes, f"./{COMMAND}", datetime.now(UTC))
    path = write_faults(out, records)
    recording.report(path, path.with_suffix(".md"))
    kept = read_faults(path)
    say(page.summary(kept))
    say(f"written: {path}, {len(kept)} trials in {time.monotonic() - started:.0f} s")
    return recording.status_of(kept)


def _line(one: Outcome) -> str:
    said = "" if one.reason is None else f": {one.reason}"
    return f"{one.outcome}, {one.exchanges} exchanges, {one.seconds:.2f} s: {one.trial.label}{said}"


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), Path(sys.argv[2]), lambda line: print(line, flush=True)))
