"""What a study is: a program that a node runs, and a report that is made at a desk from its records.

`harness/studies/NAME/program.py` has `Settings` and `Trial` (frozen dataclasses), `Record` (its table, an Envelope) and

- `blocks(settings, done) -> Sequence[Block]`: what comes next, from the rows that are there; the first round is
  asked for with none, and a round without blocks is the end. It is pure: equal arguments give equal blocks.
- `run(batch, group) -> Iterator[Said]`: runs in a fresh process, once for each rank, and says what came of each trial.
- `judge(plan, batch, trial, ended) -> Sequence[Row]`: what that amounts to.

`harness/studies/NAME/report.py` has `text`, `summary` and `status`, each of the results; no node loads it.
`docs/tutorial.md` builds a study from nothing.
"""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from harness import studies
from harness.errors import UsageError, valid_names
from harness.records.envelope import FAILED, OK, VOID

Backend = Literal["sim", "cuda"]


@dataclass(frozen=True)
class Edit:
    """A change of a tree's native sources.

    Args:
        file: relative to the tree.
        shipped: a text that stands in it once; an empty one stands for the end of the file, which is made if missing.
        instead: what takes its place.
    """

    file: str
    shipped: str
    instead: str


@dataclass(frozen=True)
class Asked:
    """An arm that batches of a tree run.

    Args:
        name: canonical name.
        tree: index of the tree.
        backend: sim or cuda.
        shape: keyword arguments of a World in which it can be had; none for an arm that no tree builds.
    """

    name: str
    tree: int
    backend: str
    shape: Mapping[str, Any] | None


@dataclass(frozen=True)
class Batch:
    """What shares one start of processes.

    Args:
        trials: of the study's Trial, in the order they run; no two of a plan are equal.
        backend: sim: one process; cuda: one for each rank.
        layout: whose ranks run, on GPUs each in a process of its own; None: one process without ranks.
        tree: index of the tree that it runs.
        edits: of that tree's native sources, in every library that its processes load.
        libraries: on GPUs, where they load several: the edits that each has ahead of these.
        swapped: whether the two trees have changed places.
        ranks_per_gpu: ranks on the fullest GPU; None: as many as the GPUs of the machine make it.
        pair: batches of a block with one number count together or not at all, where losses void.
        tool: command that each rank is started under.
        limit_s: of the start, where it is not the launcher's.
        expected_s: what it should take.
    """

    trials: tuple[Any, ...]
    backend: Backend = "sim"
    layout: str | None = None
    tree: int = 0
    edits: tuple[Edit, ...] = ()
    libraries: tuple[tuple[Edit, ...], ...] = ()
    swapped: bool = False
    ranks_per_gpu: int | None = None
    pair: int = 0
    tool: tuple[str, ...] = ()
    limit_s: float | None = None
    expected_s: float = 10.0

    @property
    def built(self) -> tuple[tuple[Edit, ...], ...]:
        """All edits of each library that is built for it, beside the tree's own."""
        return tuple(filter(None, ((*own, *self.edits) for own in self.libraries or ((),))))


@dataclass(frozen=True)
class Block:
    """What is claimed and allocated together.

    Args:
        batches: in the order they run.
        on_loss: void: batches of a pair count together or not at all; keep: every trial counts by itself, and what a
            batch has not come to is started again as long as each start brings something.
    """

    batches: tuple[Batch, ...]
    on_loss: Literal["void", "keep"] = "keep"


@dataclass(frozen=True)
class Said:
    """What a process says of a trial: its index in the batch, and facts as JSON takes them.

    The facts `void` and `failed` hold a reason; anything else is the study's own.
    """

    trial: int
    facts: Mapping[str, Any] = field(default_factory=dict)


class VoidError(Exception):
    """Why nothing can be measured here although nothing failed: the trials that are left are void."""


@dataclass(frozen=True)
class Ended:
    """What there is of a trial, once every rank has spoken of it or its processes have ended.

    Args:
        said: by rank; one process that holds all ranks is rank 0.
        opened: by rank what it said of itself when it began.
        num_ranks: that must speak.
        endings: by rank why it ended badly.
        void: why the rest of the batch is void, or None.
        files: folder of the processes, with their standard error.
    """

    said: Mapping[int, Mapping[str, Any]]
    opened: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    num_ranks: int = 1
    endings: Mapping[int, str] = field(default_factory=dict)
    void: str | None = None
    files: Path | None = None

    @property
    def status(self) -> str:
        """Ok where every rank has spoken and none of a failure."""
        return self._judged[0]

    @property
    def reason(self) -> str | None:
        """Why it is not ok."""
        return self._judged[1]

    @property
    def _judged(self) -> tuple[str, str | None]:
        spoken = sorted(self.said.items())
        failed = {rank: str(said["failed"]) for rank, said in spoken if "failed" in said}
        void = next((str(said["void"]) for _, said in spoken if "void" in said), None)
        missing = [rank for rank in range(self.num_ranks) if rank not in self.said]
        if void or (self.void and missing and not failed):
            return VOID, void or self.void
        failed |= {rank: self.endings.get(rank, "said nothing of this trial") for rank in missing}
        if not failed:
            return OK, None
        named = (f"rank {rank}: {why}" for rank, why in sorted(failed.items()))
        return FAILED, "; ".join(failed.values() if self.num_ranks == 1 else named)


def names() -> tuple[str, ...]:
    """The studies there are, by the names of their folders."""
    programs = (path for folder in studies.__path__ for path in Path(folder).glob("*/program.py"))
    return tuple(sorted(path.parent.name.replace("_", "-") for path in programs))


def program(name: str) -> Any:
    """A study's program.

    Raises:
        UsageError: no such study.
    """
    return _module(name, "program")


def settings(name: str) -> Any:
    """A study's own way to read a composed configuration; None: field by field.

    Its `wanted(config, desk)` reads it, and `SECTIONS` names by section the dataclass that this is read into.
    """
    place = f"harness.studies.{name.replace('-', '_')}.settings"
    return None if importlib.util.find_spec(place) is None else import_module(place)


def report(name: str) -> ModuleType:
    """A study's report; at a desk alone.

    Raises:
        UsageError: no such study.
    """
    return _module(name, "report")


def _module(name: str, part: str) -> ModuleType:
    if name not in names():
        raise UsageError(f"study: expected one that is here, received {name!r}.", valid_names(name, names()))
    return import_module(f"harness.studies.{name.replace('-', '_')}.{part}")
