"""The shipped kernels survive the hunt, and the hunt finds what is planted."""

import pytest

import afdep
from afdep.hunt import Hunt, run_seed, run_seeds
from tests.hunt.plants import PLANTS, Plant, build_with

SEEDS = 500
"""A hunt of each family, as seeds from 0."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Builds a plant's library once."""
    built = {}

    def library(plant: Plant):
        if plant.name not in built:
            built[plant.name] = build_with(plant, tmp_path_factory.mktemp("plant"))
        return built[plant.name]

    return library


def first_finding(hunt: Hunt, seeds: range):
    return next(run_seeds(hunt, seeds), None)


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
def test_shipped_kernels_are_clean_over_500_seeds(arm):
    assert first_finding(Hunt(arm), range(SEEDS)) is None


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
def test_shipped_kernels_are_clean_with_thread_fibers(arm):
    assert first_finding(Hunt(arm, fiber="thread"), range(8)) is None


@pytest.mark.parametrize("control", afdep.controls.NAMES)
def test_every_control_is_clean_in_the_hunt(control):
    assert first_finding(Hunt(f"afdep[{control}=1]"), range(60)) is None


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_the_hunt_finds_a_plant_within_its_budget(plant, libraries):
    finding = first_finding(Hunt(plant.arm, library=libraries(plant), fiber=plant.fiber), range(plant.budget))
    assert finding is not None, f"{plant.name}: not found in {plant.budget} seeds"
    assert isinstance(finding.error, getattr(afdep, plant.ends_in))


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_a_found_seed_replays_exactly(plant, libraries):
    hunt = Hunt(plant.arm, library=libraries(plant), fiber=plant.fiber)
    finding = first_finding(hunt, range(plant.budget))
    assert str(run_seed(hunt, finding.seed)) == str(finding)


def test_a_seed_without_a_bug_replays_the_same_schedule():
    hunt = Hunt("afdep", exchanges=2)
    assert run_seed(hunt, 7) is run_seed(hunt, 7) is None
