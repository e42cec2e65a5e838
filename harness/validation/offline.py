"""Declared trials on a node without Hydra: `python -P -m harness.validation.offline TRIALS.json FOLDER [GPUS]`.

`python -m harness validate to=TRIALS.json` writes the file. What comes of each trial goes into the folder as it
ends, and the record with its page at the end, SIGTERM included. Started again with the same folder, it
plays what is left.
"""

import dataclasses
import json
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from afdep.errors import AfdepError
from harness.decode import decode
from harness.digests import harness_digest
from harness.errors import HarnessError
from harness.leaving import leave
from harness.surroundings import ERROR, NOTHING, OK
from harness.validation import page
from harness.validation.cases import Trial
from harness.validation.journal import Heading, Journal
from harness.validation.outcome import Outcome
from harness.validation.recording import keep_journal, status_of
from harness.validation.running import run_all
from harness.workspace import REPOSITORY


class CutShortError(BaseException):
    """This process was asked to end; no handler of errors takes it for one of a trial."""


def write(path: Path, trials: Sequence[Trial]) -> Path:
    """Write trials as the file that `main` plays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([dataclasses.asdict(trial) for trial in trials]), encoding="utf-8")
    return path


def main(path: Path, folder: Path, gpus: int | None = None) -> int:
    """Play the trials of a file, as far as the folder has no outcome of them; the exit status is that of `validate`,
    but for 3 where some trial is void: each was declared for this node, so what is void was cut short or had no place.

    Args:
        path: the file.
        folder: takes what comes of them.
        gpus: how many GPUs ranks are placed on, by default all there are.
    """
    trials = tuple(decode(Trial, data) for data in json.loads(path.read_text(encoding="utf-8")))
    placed = [] if gpus is None else [str(gpus)]
    command = shlex.join(["python", "-m", "harness.validation.offline", path.name, folder.name, *placed])
    now = datetime.now(UTC).isoformat(timespec="seconds")
    book = Journal(folder, Heading(command, now, harness_digest(REPOSITORY), trials))
    say = _clocked(time.monotonic)
    try:
        run_all(book.left, 1, lambda one: _note(one, book, say), say, gpus)
    except CutShortError:
        say("cut short")
    _, records = keep_journal(folder, folder)
    say(f"{len(records)} trials\n{page.summary(records)}")
    return status_of(records) or (NOTHING if any(one.status == "void" for one in records) else OK)


def _note(outcome: Outcome, book: Journal, say: Callable[[str], None]) -> None:
    book.add(outcome)
    times = f"made in {outcome.made_s:.2f} s, played in {outcome.played_s:.2f} s"
    say(f"{outcome.trial.label}: {outcome.status}, {times}{f'; {outcome.reason}' if outcome.reason else ''}")


def _clocked(clock: Callable[[], float]) -> Callable[[str], None]:
    """Prints lines, each with the time of day and the seconds since now."""
    began = clock()

    def say(line: str) -> None:
        print(f"{datetime.now(UTC):%H:%M:%S} {clock() - began:6.1f} s  {line}", flush=True)

    return say


def _cut_short(number: int, frame: object) -> NoReturn:
    raise CutShortError


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _cut_short)
    try:
        leave(main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:4])))
    except (HarnessError, AfdepError) as error:  # 1 would say that a trial has failed
        print(error, file=sys.stderr)
        leave(ERROR)
