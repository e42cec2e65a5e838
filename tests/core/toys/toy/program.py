"""Processes that do what their trials say, as good or bad ones might."""

import importlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.core.plan import Plan
from harness.records.envelope import Envelope
from harness.study import Batch, Block, Ended, Said, VoidError


@dataclass(frozen=True)
class Settings:
    """What is done.

    Args:
        batches: what the trials of each batch do, in order.
        on_loss: of the one block of each round.
        rounds: how many there are; each does the same.
        tool: that every process is started under.
    """

    batches: tuple[tuple[str, ...], ...]
    on_loss: Literal["void", "keep"] = "keep"
    rounds: int = 1
    tool: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One thing that is done."""

    number: int
    do: str


@dataclass(frozen=True, kw_only=True)
class Record(Envelope):
    """What came of it."""

    table: ClassVar[str] = "toys"

    number: int = 0
    said: str = ""


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """The next round, until there are enough."""
    begun = 1 + max((row.round for row in done), default=-1)
    if begun == settings.rounds:
        return ()
    each = sum(map(len, settings.batches))
    batches, number = [], begun * each
    for words in settings.batches:
        trials = tuple(Trial(number + index, do) for index, do in enumerate(words))
        batches.append(Batch(trials, tool=settings.tool))
        number += len(words)
    return [Block(tuple(batches), settings.on_loss)]


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Do it."""
    group.turn()
    for index, trial in enumerate(batch.trials):
        word, _, rest = trial.do.partition(":")
        _ACTS[word](rest)
        yield Said(index, {"said": f"done {trial.number}", "pid": os.getpid()})


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """One row a trial."""
    row = Record(number=trial.number, said=str(ended.said.get(0, {}).get("said", "")), machine="toy")
    return [replace(row, status=ended.status, reason=ended.reason)]


def _void(reason: str) -> None:
    raise VoidError(reason)


def _wrong(reason: str) -> None:
    raise ValueError(reason)


def _die(number: str) -> None:
    sys.stderr.write("about to die\n")
    sys.stderr.flush()
    os.kill(os.getpid(), int(number))
    time.sleep(10)


def _loud(size: str) -> None:
    sys.stderr.write("x" * int(size) + "\n")
    raise RuntimeError("y" * int(size))


def _fake(_: str) -> None:
    print('{"event": "said", "trial": 0, "facts": {"said": "a lie"}}', flush=True)
    print("half a line", end="", flush=True)


def _lazy(name: str) -> None:
    importlib.import_module(name)


def _wait(path: str) -> None:
    Path(path + ".arrived").touch()
    while not Path(path).exists():
        time.sleep(0.01)


def _once(path: str) -> None:
    """Die the first time."""
    if not Path(path).exists():
        Path(path).touch()
        _die("9")


_ACTS = {
    "ok": lambda _: None,
    "void": _void,
    "raise": _wrong,
    "exit": lambda status: os._exit(int(status)),
    "die": _die,
    "loud": _loud,
    "fake": _fake,
    "lazy": _lazy,
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "wait": _wait,
    "once": _once,
}
