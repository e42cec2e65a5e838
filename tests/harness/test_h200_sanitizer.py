"""1A1F on H200s under compute-sanitizer: silence on the sound tree counts, since each tool reported its plant."""

import pytest

from harness.records.sanitizings import read_sanitizing
from harness.sanitizer import page, runs
from harness.sanitizer.plants import PLANTS, SOUND
from harness.workspace import REPOSITORY


@pytest.fixture(scope="module")
def kept():
    return read_sanitizing(REPOSITORY / "records" / "sanitizer" / "h200.parquet")


def test_every_planned_run_is_there_for_both_ranks(kept):
    names = [(run.tool, run.arm, SOUND if run.plant is None else run.plant.name) for run in runs.planned()]
    assert [(one.tool, one.arm, one.tree, one.rank) for one in kept] == [
        (*name, rank) for name in names for rank in (0, 1)
    ]


def test_the_tools_are_silent_on_the_sound_tree_after_exact_exchanges(kept):
    sound = [one for one in kept if one.tree == SOUND]
    assert {page.outcome(one, kept) for one in sound} == {"silent"}
    assert {(one.errors, one.exit_code) for one in sound} == {(0, 0)}
    assert all(one.exchanges > 0 for one in sound)
    assert len({one.native_digest for one in sound}) == 1


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_each_plant_is_reported_in_its_kernel_by_its_tool(kept, plant):
    planted = [one for one in kept if one.tree == plant.name]
    assert {one.tool for one in planted} == {plant.tool}
    assert {page.outcome(one, kept) for one in planted} == {"reported"}
    assert all(one.errors > 0 and one.in_kernel and plant.kernel in one.said for one in planted)


def test_nothing_keeps_the_runs_from_saying_what_they_are_to_say(kept):
    assert page.faults(kept) == []


def test_the_page_is_that_of_its_record(kept):
    assert (REPOSITORY / "reports" / "sanitizer.md").read_text("utf-8") == page.text(kept)
