"""Injected faults on H200s and in the hunt: every planned trial counts; those that GPUs did not catch are listed."""

from dataclasses import replace

import pytest

from harness.records import read
from harness.report.results import Part, Results
from harness.studies.faults import report
from harness.studies.faults.program import Record, outcome
from harness.studies.faults.trials import AS_SHIPPED, CAUGHT, EXACT, MUTANTS, NOTHING, ON_GPUS, on_gpus
from tests.studies.executing import ROOT, settings_of

PASSED, VOID = "passed", "void"

NOT_CAUGHT = {
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
"""Faults that no run on GPUs caught, by class of bug: what this device happens to order by itself."""

VOIDED = {"a buffer parity that does not flip": "places [0] never ran; rank 0: WaitTimeoutError: dispatch counts"}
"""Faults whose run on GPUs says nothing, and how its reason begins: here no rank told the mark of the edit."""

KINDS = {name: MUTANTS[name].kind for name in ON_GPUS}


@pytest.fixture(scope="module")
def archived():
    return read([ROOT / "records" / "faults" / "h200.parquet"]).of(Record)


def of(archived, backend, expects):
    return [one for one in archived if (one.backend, one.expects) == (backend, expects)]


def not_caught(archived):
    """Faults that passed in all their runs on GPUs, by class."""
    outcomes = {}
    for one in of(archived, "cuda", CAUGHT):
        outcomes.setdefault(one.control, set()).add(outcome(one))
    names = {control for control, found in outcomes.items() if found == {PASSED}}
    return {kind: own for kind in dict.fromkeys(KINDS.values()) if (own := {n for n in names if KINDS[n] == kind})}


def test_every_planned_trial_ran_on_gpus_and_every_fault_was_hunted(archived):
    settings = settings_of("faults")
    planned = [(one, settings.late_us if one.late else 0) for one in on_gpus(settings.layouts)]
    wanted = sorted((one.control, one.arm, one.layout, str(one.late), late_us) for one, late_us in planned)
    ran = [one for one in archived if one.backend == "cuda"]
    assert sorted((one.control, one.arm, one.layout, str(one.late), one.late_us) for one in ran) == wanted
    assert sorted(one.control for one in of(archived, "sim", CAUGHT)) == sorted(ON_GPUS)


def test_everything_that_must_be_exact_is_exact(archived):
    ends = [one for one in archived if one.expects == EXACT]
    assert {outcome(one) for one in ends} == {EXACT}
    assert {one.control for one in ends} == {AS_SHIPPED, NOTHING}
    assert all(one.exact == one.exchanges > 0 for one in ends if one.backend == "cuda")


def test_no_outcome_is_void_but_those_listed_and_every_edit_and_delay_of_the_others_left_its_mark(archived):
    void = {one.control: one.reason for one in archived if outcome(one) == VOID}
    assert set(void) == set(VOIDED)
    assert all(void[control].startswith(reason) for control, reason in VOIDED.items())
    assert {one.marked for one in archived if one.backend == "cuda" and outcome(one) != VOID} == {True}


def test_the_hunt_finds_every_fault(archived):
    assert all(outcome(one).startswith("caught: ") for one in of(archived, "sim", CAUGHT))


def test_the_faults_that_gpus_did_not_catch_are_the_listed_ones(archived):
    assert not_caught(archived) == NOT_CAUGHT


def test_each_catch_on_gpus_has_a_rank_that_says_what_its_kernels_did(archived):
    said = {
        "caught: mismatch": ("MismatchError: ", "collected rows differ"),
        "caught: named error": ("TimeoutError: ",),
        "caught: device fault": ("AcceleratorError: CUDA error: ",),
        "caught: hang": ("StuckError: ",),
    }
    caught = [one for one in of(archived, "cuda", CAUGHT) if outcome(one) in said]
    assert {outcome(one) for one in caught} == set(said) - {"caught: hang"}
    assert all(any(words in one.said for words in said[outcome(one)]) for one in caught)


def test_a_fault_that_is_caught_for_once_or_never_again_is_noticed(archived):
    caught = [replace(one, caught="mismatch") if one.control in NOT_CAUGHT["fence"] else one for one in archived]
    assert set(not_caught(caught)) == set(NOT_CAUGHT) - {"fence"}
    passed = [replace(one, status="ok", caught=None) if one.expects == CAUGHT else one for one in archived]
    assert set(not_caught(passed)) == set(KINDS.values())


def test_every_class_of_fault_has_an_outcome_in_the_hunt_and_on_gpus(archived):
    sides = {backend: {KINDS[one.control] for one in of(archived, backend, CAUGHT)} for backend in ("sim", "cuda")}
    assert sides["sim"] == sides["cuda"] == set(KINDS.values())


def test_every_class_but_those_listed_is_caught_on_gpus_in_at_least_one_of_its_faults(archived):
    caught = {KINDS[one.control] for one in of(archived, "cuda", CAUGHT) if outcome(one).startswith("caught: ")}
    assert set(KINDS.values()) - caught == {"fence"}


def test_the_page_is_that_of_its_record():
    text = (ROOT / "reports" / "faults" / "h200.md").read_text("utf-8")
    reading = read([ROOT / "records" / "faults" / "h200.parquet"])
    assert text == report.text(Results("faults", "h200", (Part(None, reading),)))
