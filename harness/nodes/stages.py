"""Stages of a node: parts of its plans that take a few minutes each and hold whole pairs, and the table of them."""

import csv
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from afdep.layout import Layout
from harness import colocation
from harness.errors import PlacementError, UsageError, valid_names
from harness.plan import Plan, PlanFile, Process

TABLE = "stages.tsv"
"""The file of a bundle that lists its stages, in the order they run."""

VALIDATION = "validation"
"""The stage that plays trials, and the word that it has in place of a plan."""

MOST_S = 200
"""Expected seconds of a stage, at the most: what a node loses that is taken away in the middle of one."""

COMMAND_S = 430
"""Expected seconds of a command of several stages, at the most: one may be limited to ten minutes."""

PAIRS_OF_A_ROUND = 2
"""Two pairs have both orders, so a node that stops behind a round leaves figures that no drift favours."""


@dataclass(frozen=True)
class Stage:
    """One command of a node.

    Args:
        name: of the stage.
        expected_s: seconds that it should take.
        limit_s: seconds after which it is ended.
        gpus: how many it needs.
        plan: hash of the plan that it measures a part of, or `validation`.
        rows: of the plan, by index.
        pairs: of each row, from 0.
    """

    name: str
    expected_s: int
    limit_s: int
    gpus: int
    plan: str
    rows: tuple[int, ...] = ()
    pairs: tuple[int, ...] = ()

    def takes(self, process: Process) -> bool:
        """Whether a process of its plan is a part of it."""
        return process.row in self.rows and process.pair in self.pairs


def of_trials(gpus: int, expected_s: int) -> Stage:
    """The stage that plays the trials of a node."""
    return Stage(VALIDATION, expected_s, _limit(expected_s), gpus, VALIDATION)


def of_plan(file: PlanFile, process_s: int) -> list[Stage]:
    """The stages of a plan: a round of pairs of every row before the next round, rows in order.

    Args:
        file: the plan.
        process_s: seconds that a process takes.
    """
    plan = file.plan
    found: list[Stage] = []
    row_s = PAIRS_OF_A_ROUND * len(plan.arms) * process_s
    for first in range(0, plan.backend.pairs, PAIRS_OF_A_ROUND):
        pairs = tuple(range(first, min(first + PAIRS_OF_A_ROUND, plan.backend.pairs)))
        for rows in _even(len(plan.rows), max(1, MOST_S // row_s)):
            expected = len(rows) * len(pairs) * len(plan.arms) * process_s
            name = f"{_timing(plan)}-{len(found) + 1}"
            found.append(Stage(name, expected, _limit(expected), _gpus(plan, rows), file.plan_hash, rows, pairs))
    return found


def _timing(plan: Plan) -> str:
    device = plan.backend.device
    assert device is not None
    return {"host": "barrier", "device": "free"}[device.rendezvous]


def _even(count: int, most: int) -> list[tuple[int, ...]]:
    """So many indices in as few parts as hold no more than `most`, as even as can be."""
    parts = -(-count // most)
    bounds = [count * part // parts for part in range(parts + 1)]
    return [tuple(range(first, end)) for first, end in pairwise(bounds)]


def _gpus(plan: Plan, rows: Sequence[int]) -> int:
    layouts = [Layout.parse(plan.rows[row].layout) for row in rows]
    placed = [colocation.planned(layout, plan.backend.ranks_per_gpu) for layout in layouts]
    return max(1 + seat.gpu for one in placed for seat in one.seats)


def _limit(expected_s: int) -> int:
    """Half as much again, and what a start may take."""
    return expected_s * 3 // 2 + 60


def commands(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Stages in order, as many together as one command should hold."""
    found: list[list[Stage]] = []
    for stage in stages:
        if not found or sum(one.expected_s for one in [*found[-1], stage]) > COMMAND_S:
            found.append([])
        found[-1].append(stage)
    return found


def write(path: Path, stages: Sequence[Stage]) -> None:
    """Write the table, with one line a stage."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
        writer.writerow(field.name for field in dataclasses.fields(Stage))
        writer.writerows([*dataclasses.astuple(one)[:-2], _listed(one.rows), _listed(one.pairs)] for one in stages)


def read(path: Path) -> list[Stage]:
    """The stages of a table, in order."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    numbers = ("expected_s", "limit_s", "gpus")
    return [
        Stage(
            name=row["name"],
            plan=row["plan"],
            rows=_numbers(row["rows"]),
            pairs=_numbers(row["pairs"]),
            **{name: int(row[name]) for name in numbers},
        )
        for row in rows
    ]


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def named(stages: Sequence[Stage], name: str) -> Stage:
    """The stage of a name.

    Raises:
        UsageError: there is none.
    """
    for one in stages:
        if one.name == name:
            return one
    raise UsageError(
        f"stage: expected a name of {TABLE}, received {name!r}.", valid_names(name, [one.name for one in stages])
    )


def refuse_fewer(stage: Stage, found: int) -> None:
    """Refuse a machine before anything is started there.

    Raises:
        PlacementError: it has fewer GPUs than the stage needs.
    """
    if found < stage.gpus:
        raise PlacementError(
            f"stage {stage.name}: expected {stage.gpus} GPUs, one for each rank, received {found}.",
            "Run it on a machine that has them; ranks that share GPUs are another screen, slurm/h200-colocated.sh.",
        )
