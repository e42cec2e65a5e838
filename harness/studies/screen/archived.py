"""Screens that were planned in format 1: read and reported, never resumed.

Their hash is that of the stored data, and each cell's key follows from it by the rule of that format.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from harness.core.codec import decode, short_hash
from harness.core.identity import Identity
from harness.core.plan import Plan, PlannedArm, Tree
from harness.ranks.cells import Backend, DeviceTiming, Exchange, Floor, Row
from harness.studies.screen.program import ArmChoice, Settings, Trial
from harness.study import Batch, Block

_RENAMED = {"experts": "num_experts"}


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


def read(data: Mapping[str, Any]) -> ArchivedPlan:
    """A plan of format 1 as it is stored in its file."""
    trees = tuple(
        Tree(one["name"], ((data["backend"]["name"], one["native_digest"]),), one["source_digest"], 1)
        for one in data["trees"]
    )
    return ArchivedPlan(
        study="screen",
        name=data["screen"],
        settings=_settings(data),
        trees=trees,
        arms=tuple(
            PlannedArm(one["name"], one["tree"], data["backend"]["name"], decode(Identity, one["identity"]))
            for one in data["arms"]
        ),
        measuring_digest=data["harness_digest"],
        machine_digest=None,
        blocks=_blocks(data),
        format=data["version"],
        data=data,
    )


def _settings(data: Mapping[str, Any]) -> Settings:
    return Settings(
        name=data["screen"],
        rows=tuple(Row(**{_RENAMED.get(name, name): held for name, held in one.items()}) for one in data["rows"]),
        tokens=tuple(one["tokens"] for one in data["cells"]),
        arms=tuple(ArmChoice(one["name"], one["tree"]) for one in data["arms"]),
        exchange=Exchange(**data["exchange"]),
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
    groups = groupby(data["processes"], key=lambda one: one["block"])
    return tuple(Block(tuple(_batch(data, one) for one in group), on_loss="void") for _, group in groups)


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
