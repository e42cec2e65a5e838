"""Declared trials on a node without Hydra: `python -P -m harness.validation.offline TRIALS.json FOLDER`.

`python -m harness validate to=TRIALS.json` writes the file. The record and its page go into the folder.
"""

import dataclasses
import json
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.decode import decode
from harness.leaving import leave
from harness.validation import page
from harness.validation.cases import Trial
from harness.validation.recording import keep, status_of
from harness.validation.running import run_all


def write(path: Path, trials: Sequence[Trial]) -> Path:
    """Write trials as the file that `main` plays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([dataclasses.asdict(trial) for trial in trials]), encoding="utf-8")
    return path


def main(path: Path, folder: Path) -> int:
    """Play the trials of a file; the exit status is that of `validate`."""
    trials = [decode(Trial, data) for data in json.loads(path.read_text(encoding="utf-8"))]
    outcomes = run_all(trials, 1, lambda one: print(f"{one.trial.label}: {one.status}", flush=True))
    command = shlex.join(["python", "-m", "harness.validation.offline", path.name, folder.name])
    _, records = keep(outcomes, folder, command, datetime.now(UTC))
    print(page.summary(records), flush=True)
    return status_of(records)


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), Path(sys.argv[2])))
