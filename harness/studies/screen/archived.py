"""Screens that were planned in format 1: read and reported, never resumed.

Their hash is that of the stored data, and each cell's key follows from it by the rule of that format.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.core.codec import decode, short_hash
from harness.core.identity import Identity
from harness.core.plan import Plan, PlanFile, PlannedArm, Tree
from harness.errors import PlanError
from harness.ranks.cells import Backend, DeviceTiming, Exchange, Floor, Row
from harness.studies.screen.program import ArmChoice, Settings, Trial
from harness.study import Batch, Block


@dataclass(frozen=True)
class ArchivedPlan(Plan):
    """A plan of format 1 in the terms of today.

    Args:
        data: as it is stored.
    """

    data: Mapping[str, Any] = None  # type: ignore[assignment]

    @cached_property
    def plan_hash(self) -> str:
        return short_hash("p", self.data)

    def trial_key(self, batch: Batch, trial: Trial) -> str:
        """Key of a cell's records: plan, row, cell, arm, native digest, pair and position."""
        arm = self.data["arms"][trial.arm]
        cell = next(one for one in self.data["cells"] if one["tokens"] == trial.tokens)
        place = [trial.arm, arm["name"], arm["identity"]["digest"], trial.pair, trial.position]
        return short_hash("k", [self.plan_hash, self.data["rows"][trial.row], cell, place])


def load(path: Path) -> PlanFile:
    """Read a plan file of format 1 and check that its content has the hash it is named after.

    Raises:
        PlanError: missing, damaged, altered or of another format.
    """
    try:
        stored: Any = json.loads(path.read_text(encoding="utf-8"))
        plan = _today(stored["plan"])
        created, command = str(stored["created"]), str(stored["command"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise PlanError(f"plan {path.name}: expected a plan file, received: {reason}.", "Plan it again.") from error
    if stored["plan"]["version"] != 1 or not plan.plan_hash == stored["plan_hash"] == path.stem:
        raise PlanError(f"plan {path.name}: expected its hash, received content of {plan.plan_hash}.", "Plan it again.")
    return PlanFile(path, created, command, plan)


def _today(data: Mapping[str, Any]) -> ArchivedPlan:
    trees = tuple(
        Tree(one["name"], ((data["backend"]["name"], one["native_digest"]),), one["source_digest"], 1)
        for one in data["trees"]
    )
    identities = [one["identity"] for one in data["arms"]]
    return ArchivedPlan(
        study="screen",
        name=data["screen"],
        settings=_settings(data),
        trees=trees,
        arms=tuple(
            PlannedArm(one["name"], one["tree"], data["backend"]["name"], decode(Identity, identity))
            for one, identity in zip(data["arms"], identities, strict=True)
        ),
        measuring_digest=data["harness_digest"],
        machine_digest=None,
        blocks=_blocks(data),
        format=1,
        data=data,
    )


def _settings(data: Mapping[str, Any]) -> Settings:
    rows = ({**one, "num_experts": one["experts"]} for one in data["rows"])
    exchange = dict(data["exchange"])
    return Settings(
        name=data["screen"],
        rows=tuple(Row(**{name: held for name, held in one.items() if name != "experts"}) for one in rows),
        tokens=tuple(one["tokens"] for one in data["cells"]),
        arms=tuple(ArmChoice(one["name"], one["tree"]) for one in data["arms"]),
        exchange=Exchange(**exchange),
        backend=_backend(data["backend"]),
        published=data["published"],
        declared_aa=data["declared_aa"],
        num_trees=len(data["trees"]),
    )


def _backend(data: Mapping[str, Any]) -> Backend:
    names = ("name", "machine", "pairs", "num_exchanges", "proof_exchanges", "ranks_per_gpu")
    shared = {name: data[name] for name in names}
    device = data.get("device")
    if device is None:
        return Backend(**shared)
    timing = DeviceTiming(**{name: held for name, held in device.items() if name != "floor"})
    return Backend(**shared, device=timing, floor=Floor(**device["floor"]))


def _blocks(data: Mapping[str, Any]) -> tuple[Block, ...]:
    found = []
    for _, group in groupby(data["processes"], key=lambda one: one["block"]):
        batches = [_batch(data, one) for one in group]
        found.append(Block(tuple(batches), on_loss="void"))
    return tuple(found)


def _batch(data: Mapping[str, Any], process: Mapping[str, Any]) -> Batch:
    place = {name: process[name] for name in ("row", "arm", "pair", "position")}
    return Batch(
        tuple(Trial(**place, tokens=one["tokens"]) for one in data["cells"]),
        backend=data["backend"]["name"],
        layout=data["rows"][process["row"]]["layout"],
        tree=data["arms"][process["arm"]]["tree"],
        swapped=process["swapped"],
        pair=process["pair"],
    )
