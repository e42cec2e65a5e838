"""What came of trials while they are played: a line each as it ends, so that a run that is cut short keeps them."""

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.decode import decode
from harness.errors import UsageError
from harness.validation.cases import Trial
from harness.validation.outcome import Outcome

NAME = "outcomes.jsonl"
NOT_PLAYED = "not played: the run ended before it"


@dataclass(frozen=True)
class Heading:
    """The first line.

    Args:
        command: as it was typed.
        created: when it began, in UTC.
        harness_digest: of the harness that runs.
        trials: all that are to be played, in order.
    """

    command: str
    created: str
    harness_digest: str
    trials: tuple[Trial, ...]


class Journal:
    """The file of a run, in its folder; one that is there already is gone on with.

    Args:
        folder: of the run.
        heading: of the run.

    Raises:
        UsageError: the folder holds the journal of other trials, or of another harness.
    """

    def __init__(self, folder: Path, heading: Heading):
        self._path = folder / NAME
        folder.mkdir(parents=True, exist_ok=True)
        if not (self._path.exists() and _cut_to_whole_lines(self._path)):
            self._write(dataclasses.asdict(heading))
        found, outcomes = read(folder)
        if (found.trials, found.harness_digest) != (heading.trials, heading.harness_digest):
            raise UsageError(
                f"{folder.name}: expected a journal of these trials and this harness, received another.",
                "Take a new folder.",
            )
        played = {one.trial for one in outcomes if one.status != "void"}
        self.left = tuple(trial for trial in heading.trials if trial not in played)
        """Trials that were not played, in order."""

    def add(self, outcome: Outcome) -> None:
        """Write what came of a trial, at once."""
        self._write(dataclasses.asdict(outcome))

    def _write(self, data: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def read(folder: Path) -> tuple[Heading, list[Outcome]]:
    """The journal of a folder.

    Raises:
        UsageError: there is none.
    """
    path = folder / NAME
    lines = _lines(path) if path.exists() else []
    if not lines:
        raise UsageError(f"{folder.name}: expected a journal of trials, received none.", f"Its name is {NAME}.")
    first, *others = map(json.loads, lines)
    return decode(Heading, first), [decode(Outcome, one) for one in others]


def _lines(path: Path) -> list[str]:
    """The whole lines: the last one may be half written."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _cut_to_whole_lines(path: Path) -> int:
    """Cut a half written line off, in place: whoever is ended here leaves the whole ones. How many bytes are left."""
    length = path.read_bytes().rfind(b"\n") + 1
    os.truncate(path, length)
    return length


def all_outcomes(heading: Heading, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Every trial of the run in order, those that were not played as void."""
    by_trial = {outcome.trial: outcome for outcome in outcomes}
    machine = next((one.machine for one in outcomes if one.machine), None)
    return [by_trial.get(one) or Outcome(one, "void", NOT_PLAYED, machine=machine) for one in heading.trials]
