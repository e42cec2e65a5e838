"""Guards taken away on H200s and in the hunt: every planned trial counts; those that GPUs did not miss are listed."""

from dataclasses import replace

import pytest

from harness.compose import compose
from harness.faults import page
from harness.faults.guards import GUARDS
from harness.faults.judging import PASSED, VOID
from harness.faults.settings import fault_settings
from harness.faults.trials import AS_SHIPPED, CAUGHT, EXACT, NOTHING
from harness.records.faults import read_faults
from harness.workspace import REPOSITORY

NOT_MISSED = {
    "staging": {
        "a slot is reused before the bulk store has read it",
        "a forwarded row overwrites a slot that is still being stored",
        "a reduced row overwrites a slot that is still being stored",
        "the copy epilogue loads into a slot that a bulk store may still read",
        "a column's sum overwrites a slot that is still being stored",
        "the reduce epilogue overwrites a slot that is still being stored",
    },
    "fence": {
        "a reduced row is stored without a proxy fence",
        "a record's metadata is sent without a proxy fence",
        "a column's sum is stored without a proxy fence",
    },
    "memory order": {
        "a lane's bulk store may run before the other lanes have written the row",
        "the all-rank barrier is polled without acquiring",
        "arrivals are added without releasing",
        "the arrival is released when the sources were read, not when the stores landed",
    },
}
"""Guards that no play on GPUs missed, by class of bug: what this device happens to order by itself."""

VOIDED = {"a buffer parity that does not flip": "places [0] never ran; rank 0: WaitTimeoutError: dispatch counts"}
"""Guards whose play on GPUs says nothing, and how its reason begins: here no rank told the mark of the edit."""

KINDS = {guard.name: guard.plant.kind for guard in GUARDS}


@pytest.fixture(scope="module")
def kept():
    return read_faults(REPOSITORY / "records" / "faults" / "h200.parquet")


def of(kept, backend, expects):
    return [one for one in kept if (one.backend, one.expects) == (backend, expects)]


def not_missed(kept):
    """Guards that passed in all their plays on GPUs, by class."""
    outcomes = {}
    for one in of(kept, "cuda", CAUGHT):
        outcomes.setdefault(one.control, set()).add(one.outcome)
    names = {control for control, found in outcomes.items() if found == {PASSED}}
    return {kind: own for kind in dict.fromkeys(KINDS.values()) if (own := {n for n in names if KINDS[n] == kind})}


def test_every_planned_trial_was_played_on_gpus_and_every_guard_hunted(kept):
    planned = fault_settings(compose("faults", []), REPOSITORY).making.trials()
    wanted = sorted((one.control, one.arm, one.layout, str(one.late), one.late_us) for one in planned)
    played = [one for one in kept if one.backend == "cuda"]
    assert sorted((one.control, one.arm, one.layout, str(one.late), one.late_us) for one in played) == wanted
    assert sorted(one.control for one in of(kept, "sim", CAUGHT)) == sorted(guard.name for guard in GUARDS)


def test_every_end_that_must_be_exact_is_exact(kept):
    ends = [one for one in kept if one.expects == EXACT]
    assert {one.outcome for one in ends} == {EXACT}
    assert {one.control for one in ends} == {AS_SHIPPED, NOTHING}
    assert all(one.exact == one.exchanges > 0 for one in ends if one.backend == "cuda")


def test_no_outcome_is_void_but_those_listed_and_every_edit_and_delay_of_the_others_left_its_mark(kept):
    void = {one.control: one.reason for one in kept if one.outcome == VOID}
    assert set(void) == set(VOIDED)
    assert all(void[control].startswith(reason) for control, reason in VOIDED.items())
    assert {one.marked for one in kept if one.backend == "cuda" and one.outcome != VOID} == {True}


def test_the_hunt_finds_every_guard_that_is_gone(kept):
    assert all(one.outcome.startswith("caught: ") for one in of(kept, "sim", CAUGHT))


def test_the_guards_that_gpus_did_not_miss_are_the_listed_ones(kept):
    assert not_missed(kept) == NOT_MISSED


def test_each_catch_on_gpus_has_a_rank_that_says_what_its_kernels_did(kept):
    said = {
        "caught: mismatch": ("MismatchError: ", "collected rows differ"),
        "caught: named error": ("TimeoutError: ",),
        "caught: device fault": ("AcceleratorError: CUDA error: ",),
        "caught: hang": ("StuckError: ",),
    }
    caught = [one for one in of(kept, "cuda", CAUGHT) if one.outcome in said]
    assert {one.outcome for one in caught} == set(said) - {"caught: hang"}
    assert all(any(words in one.reason for words in said[one.outcome]) for one in caught)


def test_a_guard_that_is_missed_once_or_never_again_is_noticed(kept):
    caught = [replace(one, outcome="caught: mismatch") if one.control in NOT_MISSED["fence"] else one for one in kept]
    assert set(not_missed(caught)) == set(NOT_MISSED) - {"fence"}
    passed = [replace(one, outcome=PASSED) if one.expects == CAUGHT else one for one in kept]
    assert set(not_missed(passed)) == set(KINDS.values())


def test_every_class_of_guard_has_an_outcome_in_the_hunt_and_on_gpus(kept):
    sides = {backend: {KINDS[one.control] for one in of(kept, backend, CAUGHT)} for backend in ("sim", "cuda")}
    assert sides["sim"] == sides["cuda"] == set(KINDS.values())


def test_every_class_but_those_listed_is_caught_on_gpus_by_at_least_one_of_its_guards(kept):
    caught = {KINDS[one.control] for one in of(kept, "cuda", CAUGHT) if one.outcome.startswith("caught: ")}
    assert set(KINDS.values()) - caught == {"fence"}


def test_the_page_is_that_of_its_record(kept):
    text = (REPOSITORY / "reports" / "faults" / "h200.md").read_text("utf-8")
    assert text == page.text("h200", kept)
