"""The plan: an immutable JSON file that says what is measured, with which trees, in which blocks and order.

Its hash covers everything that decides a figure and nothing else: no time, no host, no path, no command line. Rounds
that follow from results are written beside it, each once.
"""

import fcntl
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import study
from harness.core.codec import Fields, decode, encode, short_hash
from harness.core.identity import Identity
from harness.errors import PlanError
from harness.records import files
from harness.study import Batch, Block

FORMAT = 2
INDEX = "bundle.json"
"""The file that makes a folder a bundle."""
OUT = "out"
"""The folder of a bundle that a node writes to."""


@dataclass(frozen=True)
class Tree:
    """A measured source tree.

    Args:
        name: `working`, a commit, or `installed` and a version.
        native: native digest by target.
        library_digest: of the Python files of `afdep` that a measuring process loads.
        contract: number of the interface by which the harness measures it.
    """

    name: str
    native: tuple[tuple[str, str], ...]
    library_digest: str
    contract: int = 2

    def native_digest(self, backend: str) -> str:
        return dict(self.native)[backend]


@dataclass(frozen=True)
class PlannedArm:
    """An arm of one tree on one backend, with the identity that must be loaded."""

    name: str
    tree: int
    backend: str
    identity: Identity


@dataclass(frozen=True)
class Plan:
    """Everything that decides the figures of a study.

    Args:
        study: whose program runs it.
        name: of what it measures, as a screen's.
        settings: of the study.
        trees: that batches run.
        arms: whose identities are compared with what is loaded.
        measuring_digest: of the Python files of the harness that driver, workers and ranks load.
        machine_digest: of the constants of the simulated machine, where one is named.
        blocks: the first round.
    """

    study: str
    name: str
    settings: Any
    trees: tuple[Tree, ...]
    arms: tuple[PlannedArm, ...]
    measuring_digest: str
    machine_digest: str | None
    blocks: tuple[Block, ...]
    format: int = field(default_factory=lambda: FORMAT)  # no stated default: it is part of every plan

    @cached_property
    def plan_hash(self) -> str:
        return short_hash("p", encode(self))

    @property
    def batches(self) -> list[Batch]:
        """Those of the first round, in order."""
        return [batch for block in self.blocks for batch in block.batches]

    def trial_key(self, batch: Batch, trial: Any) -> str:
        """Key of a trial's records: the plan, the trial, and the native digest of the tree that it runs."""
        tree = self.trees[batch.tree].native_digest(batch.backend)
        return short_hash("k", [self.plan_hash, encode(trial), tree, encode(batch.edits)])

    def identity(self, arm: str, batch: Batch) -> Identity | None:
        """The planned identity of an arm in a batch; None where none was planned."""
        wanted = (arm, batch.tree, batch.backend)
        return next((one.identity for one in self.arms if (one.name, one.tree, one.backend) == wanted), None)

    def shared_identity(self) -> str | None:
        """Why no comparison of this plan means anything: two arms have one identity without an A/A; else None."""
        if getattr(self.settings, "declared_aa", True):
            return None
        for one, other in itertools.combinations(self.arms, 2):
            if (one.identity, one.backend) == (other.identity, other.backend):
                return f"arms {one.name} and {other.name} have one identity ({one.identity.digest}) without an A/A"
        return None


def _known(study_name: str) -> Fields:
    """The types of fields that plans leave to their study."""
    program = study.program(study_name)
    return {Plan: {"settings": program.Settings}, Batch: {"trials": tuple[program.Trial, ...]}}  # type: ignore[name-defined]


@dataclass(frozen=True)
class PlanFile:
    """A plan with what its hash leaves out.

    Args:
        path: of the file.
        created: UTC time in ISO form.
        command: the command line that made it.
        plan: the plan.
    """

    path: Path
    created: str
    command: str
    plan: Plan

    @property
    def plan_hash(self) -> str:
        return self.path.stem

    def rounds(self) -> Iterator[tuple[Block, ...]]:
        """Every round that is written, the plan's own first.

        Raises:
            PlanError: one that cannot be read.
        """
        yield self.plan.blocks
        known, number = _known(self.plan.study), 1
        while (path := self._round(number)).exists():
            with _named(path, "Put it back from a copy, or run in another folder: launcher.out=FOLDER."):
                blocks = decode(tuple[Block, ...], json.loads(path.read_text(encoding="utf-8")), known)
            yield blocks
            number += 1

    def add_round(self, number: int, blocks: Sequence[Block]) -> tuple[Block, ...]:
        """Write a round that follows from results, or take the one that is there: none is ever derived twice."""
        files.step("round")
        content = json.dumps(encode(blocks), indent=1) + "\n"
        with suppress(FileExistsError):
            files.publish(self._round(number), content.encode())
        return list(self.rounds())[number]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A block that only one process at a time runs for this plan."""
        with self.path.with_name(f".{self.path.stem}.lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def _round(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.stem}.round{number}.json")


def save(folder: Path, plan: Plan, created: str, command: str) -> PlanFile:
    """Keep a plan as PLAN_HASH.json; a sound one that is there already is kept, a damaged one replaced.

    Raises:
        OSError: no place for it.
    """
    path = folder / f"{plan.plan_hash}.json"
    content = {"plan_hash": plan.plan_hash, "created": created, "command": command, "plan": encode(plan)}
    text = json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n"
    try:
        files.publish(path, text.encode(), lambda written: load(path, written))
    except FileExistsError:
        with suppress(PlanError):
            return load(path)
        files.replace(path, text.encode())
    return load(path)


def _read(data: Any) -> Plan:
    plan: Plan = decode(Plan, data, _known(str(data["study"])))
    return plan


def load(
    path: Path, stored: Path | None = None, read: Callable[[Any], Plan] = _read, planned_format: int = FORMAT
) -> PlanFile:
    """Read a plan file of one format and check that its content has the hash it is named after.

    Args:
        path: of the plan.
        stored: where its content lies; at this path if None.
        read: makes a plan of what is stored.
        planned_format: that the plan must have.

    Raises:
        PlanError: missing, damaged, altered, of another format or of a study that is not here.
    """
    with _named(path, "Plan it again."):
        data: Any = json.loads((stored or path).read_text(encoding="utf-8"))
        plan = read(data["plan"])
        created, command = str(data["created"]), str(data["command"])
    if plan.format != planned_format or not plan.plan_hash == data["plan_hash"] == path.stem:
        raise PlanError(f"plan {path.name}: expected its hash, received content of {plan.plan_hash}.", "Plan it again.")
    return PlanFile(path, created, command, plan)


@contextmanager
def _named(path: Path, next_step: str) -> Iterator[None]:
    """Whatever is wrong with what is read of a file is said by its name."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise PlanError(f"plan {path.name}: expected a plan file, received: {reason}.", next_step) from error


@dataclass(frozen=True)
class Workspace:
    """A folder of plans and records: the out folder, an archive, or a bundle with what a node has left in it.

    Args:
        folder: absolute path.
    """

    folder: Path

    @property
    def plans(self) -> Path:
        return self.folder / "plans"

    @property
    def trees(self) -> Path:
        return self.folder / "trees"

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def records(self, plan_hash: str) -> Path:
        inside = self.folder / OUT if (self.folder / INDEX).is_file() else self.folder
        return inside / "records" / plan_hash

    def journals(self, plan_hash: str) -> Path:
        return self.folder / "journals" / plan_hash

    def report(self, plan_hash: str) -> Path:
        return self.folder / "reports" / plan_hash / "report.md"
