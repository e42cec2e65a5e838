"""What tests of the validation share: its settings, trials by name, and ranks that are cut out of a World."""

from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from afdep.errors import AfdepError
from harness.config.compose import compose
from harness.config.read import read
from harness.core import ledger
from harness.core.plan import Plan, Tree
from harness.studies.validate import program, protocol, simulated
from harness.studies.validate.exchange import Setup
from harness.studies.validate.simulated import SimulatedRanks
from harness.study import Batch, Ended

ROOT = Path(__file__).resolve().parents[2]
SMALL = "validation=small"


@cache
def settings(*texts):
    """The settings of a command."""
    config = compose("study/validate", texts, ROOT / "conf")
    del config["launcher"]
    return read(program.Settings, config)


def setups(*texts):
    """Every chosen trial of a command, with all that is known of it."""
    found = settings(*texts)
    return [Setup.of(found.validation, one) for backend in found.backends for one in found.chosen(backend)]


def altered(setup, **changes):
    """The same trial of another case."""
    return replace(setup, case=replace(setup.case, **changes))


def at(setup, **changes):
    """The same case at another point."""
    return replace(setup, trial=replace(setup.trial, **changes))


def perform(setup, backend=None):
    """The facts of a trial that one process runs for all ranks."""
    return protocol.perform(setup, backend or simulated, SimpleNamespace(rank=None))


def judged(setup, said, backend="sim", endings=None, digest=None):
    """The record of what processes said of a trial, by rank."""
    said = {rank: {"ranks_per_gpu": 1, **facts} for rank, facts in said.items()}
    digest = digest or next((one["digest"] for one in said.values() if "digest" in one), "n0")
    matrix = replace(settings(SMALL).validation, cases={setup.trial.case.partition(" ")[0]: setup.case})
    matrix.__dict__["all_cases"] = {setup.trial.case: setup.case}
    tree = Tree("working", (("cuda", digest), ("sim", digest)), "t0")
    plan = Plan("validate", "validate", program.Settings(matrix, (backend,)), (tree,), (), "m0", None, ())
    trial = replace(setup.trial, backend=backend)
    batch = Batch((trial,), backend, setup.trial.layout)
    (record,) = program.judge(plan, batch, trial, Ended(said, {}, ledger.num_processes(batch), endings or {}))
    return record


def opening(make):
    """A backend whose ranks are made by a function, without peers."""
    return SimpleNamespace(open_ranks=lambda setup, group: make(setup), meet=simulated.meet)


@dataclass(frozen=True)
class Rows:
    """A copy of what an FFN rank received."""

    x: Any
    weights: Any
    scales: Any
    expert_offsets: Any
    source: Any


def _copied(found):
    """What stays when the next exchange overwrites what this one brought."""
    if isinstance(found, np.ndarray):
        return found.copy()
    arrays = {one.name: getattr(found, one.name) for one in fields(Rows)}
    return Rows(**{name: None if held is None else np.array(held) for name, held in arrays.items()})


class Recording(SimulatedRanks):
    """The ranks of a World that note all that they were brought, or what was raised instead."""

    def __init__(self, setup):
        super().__init__(setup)
        self.results = []

    def run(self, turn):
        try:
            brought = super().run(turn)
        except AfdepError as error:
            self.results.append(error)
            raise
        self.results.append({rank: _copied(found) for rank, found in brought.items()})
        return brought

    def run_free(self, turns):
        brought = super().run_free(turns)
        self.results.append([{rank: _copied(found) for rank, found in one.items()} for one in brought])
        return brought


@cache
def recorded(setup):
    """The ranks of a World that have run a trial to its end."""
    ranks = Recording(setup)
    protocol.run(ranks)
    return ranks


class RankOfAWorld:
    """One rank, as `harness.studies.validate.ranks.Ranks`, that is given what the simulator gave it.

    Args:
        setup: of the trial.
        rank: its number.
    """

    exact = free = elements = counted = informed = found = 0

    def __init__(self, setup, rank):
        self.setup, self.world, self.rank, self.number = setup, recorded(setup), rank, 0
        self.numbers, self.ffns = [rank], [rank] if setup.shape.layout.role(rank) == "ffn" else []
        self.identity, self.late, self.replays = self.world.identity, self.world.late, self.world.replays

    def run(self, turn):
        return self.own(self.next())

    def run_free(self, turns):
        return [self.own(one) for one in self.next()]

    def next(self):
        self.number += 1
        result = self.world.results[self.number - 1]
        if isinstance(result, AfdepError):
            raise result
        return result

    def own(self, brought):
        return {rank: found for rank, found in brought.items() if rank == self.rank}

    def is_poisoned(self):
        return self.world.is_poisoned()

    def num_informed(self):
        return 1

    def close(self):
        """Nothing is held."""
