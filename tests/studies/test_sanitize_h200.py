"""1A1F on H200s under compute-sanitizer: silence on the sound tree counts, since each tool reported its plant."""

import pytest

from harness.records import read
from harness.report.results import Part, Results
from harness.studies.sanitize import program, report
from harness.studies.sanitize.program import INJECTED, SOUND, Record
from tests.studies.executing import ROOT, settings_of

READING = read([ROOT / "records" / "sanitize" / "h200.parquet"])
RESULTS = Results("sanitize", "h200", (Part(None, READING),))


@pytest.fixture(scope="module")
def archived():
    return READING.of(Record)


def outcomes(rows):
    return {
        program.outcome(one, [other for other in rows if (other.tool, other.tree) == (one.tool, one.tree)])
        for one in rows
    }


def test_every_planned_run_is_there_for_both_ranks(archived):
    (block,) = program.blocks(settings_of("sanitize"), ())
    names = [(one.tool, one.arm, one.tree) for batch in block.batches for one in batch.trials]
    found = [(one.tool, one.arm, one.tree, one.rank) for one in archived]
    assert found == [(*name, rank) for name in names for rank in (0, 1)]


def test_the_tools_are_silent_on_the_sound_tree_after_exact_exchanges(archived):
    sound = [one for one in archived if one.tree == SOUND]
    assert outcomes(sound) == {"silent"}
    assert {(one.errors, one.exit_code) for one in sound} == {(0, 0)}
    assert all(one.exchanges > 0 for one in sound)
    assert len({one.native_digest for one in sound}) == 1


@pytest.mark.parametrize("tree", INJECTED)
def test_each_fault_is_reported_in_its_kernel_by_its_tool(archived, tree):
    injected, own = INJECTED[tree], [one for one in archived if one.tree == tree]
    assert {one.tool for one in own} == {injected.tool}
    assert {one.control for one in own} == {injected.what}
    assert outcomes(own) == {"reported"}
    assert all(one.errors > 0 and one.in_kernel and injected.kernel in one.said for one in own)


def test_nothing_keeps_the_runs_from_saying_what_they_are_to_say():
    assert report.status(RESULTS) == 0
    assert report.summary(RESULTS).startswith("each tool is silent on the sound tree and reports its injected fault")


def test_the_page_is_that_of_its_record():
    assert (ROOT / "reports" / "sanitize" / "h200.md").read_text("utf-8") == report.text(RESULTS)
