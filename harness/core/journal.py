"""What a batch says while it runs, line by line, so that a run that is cut short leaves what it knew.

A journal is held by a lock as long as its run lives. Once every process has ended it is sealed: from then on it is as
good as the record that is made of it. What a dead run left is made a record of by the next one.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from harness.core.codec import decode, encode
from harness.records import files

READY, OPENED, SAID, VOID, FAILED, ENDED = "ready", "opened", "said", "void", "failed", "ended"
"""Events of a process: it has imported what it needs and waits; facts of the rank; how far it has come; facts of a
trial; why nothing counts; why it failed; the end, with the files that it loaded from outside its sources."""

SEALED = "sealed"


@dataclass(frozen=True)
class Attempt:
    """Which batch a journal is of, and who ran it.

    Args:
        round, block, batch: where the batch stands in the plan.
        trials: indices of the trials that were to run.
        number: from 1.
        run: random name of the command.
        command: as typed.
    """

    round: int
    block: int
    batch: int
    trials: tuple[int, ...]
    number: int
    run: str
    command: str

    @property
    def stem(self) -> str:
        """Begins the names of its files."""
        return f"{self.round}-{self.block:04d}-{self.batch:04d}-{self.number:03d}"


@dataclass
class Told:
    """What a journal holds.

    Args:
        attempt: of the batch.
        said: by trial and rank.
        opened: by rank what it said of itself.
        void: why the rest is void, or None.
        spoiled: why nothing that was said counts, or None.
        failures: by rank the reason that it gave itself.
        endings: by rank why it ended badly; empty before the seal.
        seconds: that the batch took.
        states: of the GPUs before and after, by index.
        sealed: whether every process had ended.
        shown: trials whose outcome has been told to whoever listens.
    """

    attempt: Attempt
    said: dict[int, dict[int, dict[str, Any]]] = field(default_factory=dict)
    opened: dict[int, dict[str, Any]] = field(default_factory=dict)
    void: str | None = None
    spoiled: str | None = None
    failures: dict[int, str] = field(default_factory=dict)
    endings: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    states: list[dict[str, Any]] = field(default_factory=list)
    sealed: bool = False
    shown: set[int] = field(default_factory=set)

    def take(self, line: Mapping[str, Any]) -> None:
        """Take in one line behind the first: an event of a rank, or the seal."""
        kind, rank = line["event"], int(line["rank"])
        if kind == SAID:
            self.said.setdefault(int(line["trial"]), {})[rank] = dict(line["facts"])
        elif kind == OPENED:
            self.opened[rank] = self.opened.get(rank, {}) | dict(line["facts"])
        elif kind == VOID:
            self.void = self.void or str(line["reason"])
        elif kind == FAILED:
            self.failures[rank] = str(line["reason"])
        elif kind == ENDED and line["outside"]:
            self.spoiled = f"loaded {', '.join(line['outside'])}, which the plan lacks"
            self.shown.clear()
        elif kind == SEALED:
            self.endings = {int(one): str(why) for one, why in line["endings"].items()}
            self.seconds, self.states, self.sealed = float(line["seconds"]), list(line["states"]), True


class Journal:
    """The journal of a batch that runs.

    Args:
        folder: of the journals of its plan.
        attempt: of the batch.
    """

    def __init__(self, folder: Path, attempt: Attempt):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{attempt.stem}-{secrets.token_hex(4)}.jsonl"
        self.told = Told(attempt)
        files.step("journal")
        self._stream: TextIO = self.path.open("x", buffering=1, encoding="utf-8")  # each line is written at once
        fcntl.flock(self._stream, fcntl.LOCK_EX)
        self._stream.write(json.dumps({"attempt": encode(attempt)}) + "\n")

    def add(self, rank: int, event: Mapping[str, Any]) -> None:
        """Write an event of a rank."""
        line = json.dumps({"rank": rank, **event})
        self.told.take(json.loads(line))
        self._stream.write(f"{line}\n")

    def seal(self, endings: Mapping[int, str], seconds: float, states: list[dict[str, Any]]) -> Told:
        """Every process has ended: nothing can be added."""
        files.step("seal")
        self.add(0, {"event": SEALED, "endings": endings, "seconds": seconds, "states": states})
        os.fsync(self._stream.fileno())
        return self.told

    def remove(self) -> None:
        """Its record is there."""
        files.step("remove")
        self.path.unlink(missing_ok=True)
        self._stream.close()


def left_behind(folder: Path) -> Iterator[Told]:
    """The journals of runs that are dead, each held while it is looked at."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("r+", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # its run is alive
            if path.exists() and (told := read(path)) is not None:
                yield told
            path.unlink(missing_ok=True)


def read(path: Path) -> Told | None:
    """What a journal holds, up to the first line that is not whole; None where not even the first is."""
    told = None
    with suppress(KeyError, ValueError):
        first, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        told = Told(decode(Attempt, json.loads(first)["attempt"]))
        for line in lines:
            told.take(json.loads(line))
    return told
