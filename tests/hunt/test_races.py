"""Shipped kernels order every plain access; the checker names those that a planted bug leaves unordered."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from afdep.proof.hunt import run_seeds
from afdep.proof.scenario import Hunt
from harness.core import trees
from harness.studies.faults.mutants import SHORT_ROWS
from harness.studies.faults.simulator import built, raced
from harness.studies.faults.trials import MUTANTS

ROOT = Path(__file__).parents[2]
SEEDS = 4
ALSO_FOUND = (
    "a CTA's arrival is released before its other warps drained",
    "the arrival is released when the sources were read, not when the stores landed",
    "the exit barrier is skipped",
    "a slot is reused before the bulk store has read it",
)
"""Plants of the hunt that the checker reports as well."""
RACE_MUTANTS = [plant for plant in MUTANTS.values() if plant.finder == "race checker"]
RACES = (*RACE_MUTANTS, *(MUTANTS[name] for name in ALSO_FOUND))


def short(plant, folder):
    """A copy of the tree with a plant and without what long rows need."""
    return trees.copied(ROOT, folder, (*plant.edits, *SHORT_ROWS))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    with ThreadPoolExecutor(2) as pool:
        built(ROOT, "races")  # with the engine that all share
        copies = {one.name: short(one, tmp_path_factory.mktemp("races")) for one in RACES}
        yield {name: pool.submit(built, tree, "races") for name, tree in copies.items()}


@pytest.mark.parametrize("arm", ["m2n", "afdep", "afdep[AFDEP_UNION_NOTIFY=1]", "afdep[AFDEP_GRID_SYNC_EXIT=1]"])
def test_shipped_kernels_order_every_plain_access(arm):
    shipped = replace(RACE_MUTANTS[0], arm=arm, budget=SEEDS)
    assert raced(shipped, built(ROOT, "races")) == (SEEDS, None)


@pytest.mark.parametrize("plant", RACES, ids=lambda one: one.name)
def test_a_missing_order_is_a_data_race(plant, libraries):
    assert raced(replace(plant, budget=2), libraries[plant.name].result()) == (2, "data race")


@pytest.mark.parametrize("plant", RACE_MUTANTS, ids=lambda one: one.name)
def test_the_hunt_does_not_see_an_order_that_is_too_weak(plant, tmp_path):
    hunt = Hunt.small(plant.arm, library=built(short(plant, tmp_path)))
    assert next(run_seeds(hunt, range(40)), None) is None
