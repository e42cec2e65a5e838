"""Shipped kernels order every plain access; the checker names those that a planted bug leaves unordered."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from afdep.proof.hunt import run_seeds
from afdep.proof.scenario import Hunt
from harness.studies.faults.mutants import SHORT_ROWS
from harness.studies.faults.simulator import CLEAN, build_with, edited, report
from harness.studies.faults.simulator import races as library
from harness.studies.faults.symmetric import RACE_MUTANTS
from harness.studies.faults.trials import HUNTED as PLANTS

SEEDS = 4
ALSO_FOUND = (
    "a CTA's arrival is released before its other warps drained",
    "the arrival is released when the sources were read, not when the stores landed",
    "the exit barrier is skipped",
    "a slot is reused before the bulk store has read it",
)
"""Plants of the hunt that the checker reports as well."""
NAMED = {plant.name: plant for plant in PLANTS}
RACES = (*RACE_MUTANTS, *(NAMED[name] for name in ALSO_FOUND))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    with ThreadPoolExecutor(2) as pool:
        shipped = pool.submit(library)
        shipped.result()  # with the engine that all share
        trees = {one.name: edited((*one.edits, *SHORT_ROWS), tmp_path_factory.mktemp("races")) for one in RACES}
        yield {name: pool.submit(library, tree) for name, tree in trees.items()}


@pytest.mark.parametrize("arm", ["m2n", "afdep", "afdep[AFDEP_UNION_NOTIFY=1]", "afdep[AFDEP_GRID_SYNC_EXIT=1]"])
def test_shipped_kernels_order_every_plain_access(arm):
    assert report(library(), arm, SEEDS) == CLEAN


@pytest.mark.parametrize("plant", RACES, ids=str)
def test_a_missing_order_is_a_data_race(plant, libraries):
    said = report(libraries[plant.name].result(), plant.arm, 2)
    assert "WARNING: ThreadSanitizer: data race" in said


@pytest.mark.parametrize("plant", RACE_MUTANTS, ids=str)
def test_the_hunt_does_not_see_an_order_that_is_too_weak(plant, tmp_path):
    hunt = Hunt.small(plant.arm, library=build_with(plant, tmp_path))
    assert next(run_seeds(hunt, range(40)), None) is None
