"""The plan: an immutable JSON file that says what is measured, with which trees, in which blocks and order.

Its hash covers everything that decides a figure and nothing else: no time, no host, no path.
"""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.screen_config import Backend, Exchange, Row
from harness.decode import decode
from harness.digests import short_hash
from harness.errors import PlanError
from harness.identity import Identity

PLAN_VERSION = 1


@dataclass(frozen=True)
class Tree:
    """A measured source tree.

    Args:
        name: `working`, or the commit.
        native_digest: of its native sources, as it computes it.
        source_digest: of everything a process loads from it, without the harness.
    """

    name: str
    native_digest: str
    source_digest: str


@dataclass(frozen=True)
class PlannedArm:
    """An arm of the plan: its name, the index of its tree, and the identity that must be loaded."""

    name: str
    tree: int
    identity: Identity


@dataclass(frozen=True)
class Cell:
    """One point of a row."""

    tokens: int
    bucket: int


@dataclass(frozen=True)
class Process:
    """One fresh process: one arm of one pair of one row, measuring every cell of the row.

    Args:
        block: whole pairs that run inside one allocation.
        row: index of the row.
        pair: repeat, from 0 in each row.
        position: 0 runs first in its pair.
        arm: index of the arm; 0 is the baseline.
        swapped: True where the two trees have changed slots.
    """

    block: int
    row: int
    pair: int
    position: int
    arm: int
    swapped: bool


@dataclass(frozen=True)
class Plan:
    """Everything that decides the figures of a screen."""

    version: int
    screen: str
    published: str | None
    declared_aa: bool
    backend: Backend
    exchange: Exchange
    harness_digest: str
    trees: tuple[Tree, ...]
    arms: tuple[PlannedArm, ...]
    rows: tuple[Row, ...]
    cells: tuple[Cell, ...]
    processes: tuple[Process, ...]

    @property
    def plan_hash(self) -> str:
        return short_hash("p", as_data(self))

    def tree_of(self, process: Process) -> Tree:
        return self.trees[self.arms[process.arm].tree]

    def slot_of(self, process: Process) -> int:
        """Index of the slot directory the process runs from."""
        tree = self.arms[process.arm].tree
        return len(self.trees) - 1 - tree if process.swapped else tree

    def process_key(self, process: Process) -> str:
        return short_hash("q", [self.plan_hash, dataclasses.asdict(process)])

    def cell_key(self, process: Process, cell: Cell) -> str:
        """Key of a cell's records: plan, cell, arm, native digest, pair and position."""
        row, arm = self.rows[process.row], self.arms[process.arm]
        place = [process.arm, arm.name, arm.identity.digest, process.pair, process.position]
        return short_hash("k", [self.plan_hash, dataclasses.asdict(row), dataclasses.asdict(cell), place])

    def shared_identity(self) -> str | None:
        """Why the plan is void before it runs: two arms of one identity without a declared A/A; else None."""
        if self.declared_aa:
            return None
        for index, arm in enumerate(self.arms):
            for other in self.arms[:index]:
                if other.identity == arm.identity:
                    return f"arms {other.name} and {arm.name} have one identity ({arm.identity.digest}) without an A/A"
        return None


def as_data(plan: Plan) -> dict[str, Any]:
    """The plan as plain data; one for the simulator says nothing of devices."""
    data = dataclasses.asdict(plan)
    if plan.backend.device is None:
        del data["backend"]["device"]
    return data


@dataclass(frozen=True)
class PlanFile:
    """A plan with what its hash leaves out.

    Args:
        plan_hash: of `plan`.
        created: UTC time in ISO form.
        command: the command line that made it.
        plan: the plan.
    """

    plan_hash: str
    created: str
    command: str
    plan: Plan


def save(directory: Path, plan: Plan, created: str, command: str) -> PlanFile:
    """Keep a plan as PLAN_HASH.json; the one that is there already is kept instead, unchanged.

    Raises:
        PlanError: the file there is altered.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{plan.plan_hash}.json"
    content = {"plan_hash": plan.plan_hash, "created": created, "command": command, "plan": as_data(plan)}
    temporary = directory / f".{plan.plan_hash}.{os.getpid()}.tmp"
    temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    return load(path)


def load(path: Path) -> PlanFile:
    """Read a plan file and check that its content has the hash it is named after.

    Raises:
        PlanError: missing, not a plan of this version, or altered.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        content = decode(PlanFile, data)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise PlanError(
            f"plan {path.name}: expected a plan file, received: {reason}.", "Plan the screen again."
        ) from error
    computed = content.plan.plan_hash
    if content.plan.version != PLAN_VERSION or not computed == content.plan_hash == path.stem:
        raise PlanError(
            f"plan {path.name}: expected its hash, received content of {computed}.", "Plan the screen again."
        )
    return content
