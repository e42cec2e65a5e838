"""The hunt finds what is planted, replays it, makes it small, and the page says so."""

import os
import shlex
import shutil
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import afdep
from afdep import proof
from afdep.libraries import BuiltLibrary, write
from afdep.proof.hunt import Finding, run_seed, run_seeds
from afdep.proof.minimise import minimise
from afdep.proof.scenario import Hunt
from harness.core import trees
from harness.studies.faults.mutants import SHORT_ROWS
from harness.studies.faults.mutants import Mutant as Plant
from harness.studies.faults.simulator import built
from harness.studies.faults.trials import MUTANTS
from harness.studies.hunt import program
from tests.hunt.page import BEGIN, END, table
from tests.sim.rings import long_rows, pair_on_one_rank
from tests.studies.bench import Alone, settings_of

ROOT = Path(__file__).parents[2]
PLANTS = [plant for plant in MUTANTS.values() if plant.finder == "hunt"]
SMALLEST = PLANTS[0]
PAIRS = {
    "2A2F": MUTANTS["a reduced row is stored without a proxy fence"],
    "2A1F": MUTANTS["a column's sum is stored without a proxy fence"],
}
REUSE = MUTANTS["a slot is reused before the bulk store has read it"]


@pytest.fixture(scope="module")
def libraries(request, tmp_path_factory) -> dict[str, Future[Path]]:
    """The libraries of the plants that are tested here, built while the first are hunted."""
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    plants = {one["plant"].name: one["plant"] for one in params if "plant" in one} | {SMALLEST.name: SMALLEST}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {name: pool.submit(build, plant, tmp_path_factory.mktemp("plant")) for name, plant in plants.items()}


def build(plant: Plant, folder: Path) -> Path:
    """The native library of a copy of the tree with a plant in it."""
    return built(trees.copied(ROOT, folder, (*plant.edits, *SHORT_ROWS)), dict(plant.hunt).get("fiber", "warp"))


def hunt_of(plant: Plant, libraries: dict[str, Future[Path]]) -> Hunt:
    return Hunt.small(plant.arm, library=libraries[plant.name].result(), **dict(plant.hunt))


def first_finding(hunt: Hunt, budget: int) -> Finding | None:
    return next(run_seeds(hunt, range(budget)), None)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda one: one.name)
def test_the_hunt_finds_a_plant_within_its_budget_and_replays_it(plant, libraries):
    hunt = hunt_of(plant, libraries)
    finding = first_finding(hunt, plant.budget)
    assert finding is not None, f"{plant.name}: not found in {plant.budget} seeds"
    assert isinstance(finding.error, getattr(afdep, plant.ends_in))
    assert str(run_seed(hunt, finding.seed)) == str(finding)


@pytest.mark.parametrize(("layout", "plant"), PAIRS.items(), ids=lambda value: f"K3-{value}")
def test_replies_of_two_rows_are_wrong_without_their_proxy_fence(layout, plant, libraries):
    world, load = pair_on_one_rank(layout, plant.arm, 256, mode="hunt", library=libraries[plant.name].result())
    with pytest.raises(afdep.MismatchError, match="collected row"):
        proof.prove(world, [load], 256, 1)


@pytest.mark.parametrize("plant", [REUSE], ids=["K4"])
def test_long_rows_are_wrong_where_a_slot_is_reused_before_it_has_been_read(plant, libraries):
    world, load = long_rows(plant.arm, 64, 1, mode="hunt", library=libraries[plant.name].result())
    with pytest.raises(afdep.MismatchError):
        proof.prove(world, [load], 64, 1)


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant.kind == "sharing"], ids=lambda one: one.name)
def test_what_two_buffers_share_shows_only_when_both_are_in_flight(plant, libraries):
    assert first_finding(replace(hunt_of(plant, libraries), buffers=0.0), plant.budget) is None


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant.kind == "abort"], ids=lambda one: one.name)
def test_what_a_rank_does_once_it_gives_up_shows_only_when_one_does(plant, libraries):
    assert first_finding(replace(hunt_of(plant, libraries), aborts=0.0), plant.budget) is None


def test_plants_cover_every_class_of_bug():
    kinds = Counter(plant.kind for plant in PLANTS)
    assert set(kinds) == {"memory order", "fence", "count", "epoch", "staging", "boundary", "PDL", "sharing", "abort"}
    assert min(kinds.values()) >= 2
    assert len({plant.name for plant in PLANTS}) == len(PLANTS)


def test_a_finding_made_small_still_fails_and_names_its_exchange(libraries):
    hunt = hunt_of(SMALLEST, libraries)
    seed = first_finding(hunt, SMALLEST.budget).seed
    small, finding = minimise(hunt, seed)
    assert str(run_seed(small, seed)) == str(finding)
    assert (small.capacity, small.exchanges) < (hunt.capacity, hunt.exchanges)
    assert "in exchange" in str(finding)


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant.kind == "sharing"][:1], ids=lambda one: one.name)
def test_a_finding_of_two_buffers_stays_one_of_two(plant, libraries):
    hunt = hunt_of(plant, libraries)
    small, finding = minimise(hunt, first_finding(hunt, plant.budget).seed)
    assert small.buffers == 1.0
    assert finding.scenario.second is not None
    assert small.exchanges < hunt.exchanges


def test_a_seed_that_does_not_fail_cannot_be_made_small():
    with pytest.raises(ValueError, match="expected one that fails"):
        minimise(Hunt.small("afdep"), 0)


def said_of(words: list[str], library: Path) -> dict[str, str]:
    """What the study says of the first stretch of a command."""
    settings = settings_of("hunt", *words)
    (batch,) = program.blocks(settings, ())[0].batches
    (said,) = program.run(batch, Alone(settings, library))
    return dict(said.facts)


def test_what_the_study_finds_fails_alike_by_its_replay_command(libraries, tmp_path):
    library = shutil.copy(libraries[SMALLEST.name].result(), tmp_path / "planted.so")
    write(library, BuiltLibrary("0", "n0", "c0", "sim", "warp", "g++", ()))
    found = said_of([f"arm={SMALLEST.arm}", "budget=40"], library)
    replay = found["details"].splitlines()[0].partition("afdep-bench hunt ")[2]
    assert found["failed"].startswith("seed ")
    assert said_of(shlex.split(replay), library)["failed"] == found["failed"]


def test_the_page_holds_the_table_of_the_plants():
    text = (ROOT / "docs" / "hunt.md").read_text("utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table(MUTANTS.values())


def test_a_table_of_other_plants_differs():
    changed = replace(SMALLEST, budget=SMALLEST.budget + 1)
    assert table((MUTANTS | {SMALLEST.name: changed}).values()) != table(MUTANTS.values())
