"""Injected faults: edits apply to the tree as it is, places run and leave their marks, outcomes are judged."""

from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from afdep.digest import native_digest
from afdep.errors import AfdepError, BuildError
from harness.core import trees
from harness.errors import HarnessError, TreeError
from harness.ranks.cells import Shape
from harness.studies.faults import program
from harness.studies.faults.mutants import DELAYS, MARKS_AND_DELAYS, SHORT_ROWS
from harness.studies.faults.rounds import FAULT, LOST, MISMATCH, NAMED, STUCK, run_trial
from harness.studies.faults.trials import AS_SHIPPED, EXACT, FAULT_PLACE, MUTANTS, NOTHING, ON_GPUS, Trial
from harness.study import Batch, Ended
from tests.studies.executing import ROOT, settings_of
from tests.studies.faulty_worlds import SimulatedRank, alone, library

SETTINGS = settings_of("faults")
BATCHES = {backend: block.batches for backend, block in zip(("sim", "cuda"), program.blocks(SETTINGS, ()), strict=True)}
TRIALS = [trial for batch in BATCHES["cuda"] for trial in batch.trials]
SMALL = Shape(hidden=1024, num_experts=64, top_k=8, tokens=32, transport_sms=8, exchanges=3)
LATE_ONES = [one for one in TRIALS if one.control == NOTHING]
ROUNDS = 2
DRAINED = "a CTA's arrival is released before its other warps drained"
DIGEST = "n0123abcd"
WITHOUT = Batch(())
"""A plan needs nothing else than settings where outcomes are judged."""
PLAN = type("Plan", (), {"settings": SETTINGS})


def trial_of(control, late=None):
    return next(one for one in TRIALS if (one.control, one.late) == (control, late))


def said_of(ended=EXACT, failed=None, marks=()):
    """What a rank says of a trial."""
    facts = {"ended": ended, "exchanges": 0, "exact": 0, "marks": marks, "digest": DIGEST}
    return facts | ({} if failed is None else {"failed": failed})


def judged(trial, said, endings=None, **more):
    """The row of a trial by what each rank said."""
    num_ranks = {"1A1F": 2, "2A2F": 4}[trial.layout]
    (row,) = program.judge(PLAN, WITHOUT, trial, Ended(said, {}, num_ranks, endings or {}, **more))
    return row


def run_simulated(trial):
    """The row of a trial that the simulator runs for all ranks."""
    path = library((*trial.injected, *MARKS_AND_DELAYS))
    facts = {}
    assert run_trial(lambda: SimulatedRank(trial, path, SMALL, SETTINGS.late_us), ROUNDS, alone, facts)
    return judged(trial, dict.fromkeys(range(4 if trial.layout == "2A2F" else 2), facts))


@pytest.mark.parametrize("one", ON_GPUS.values(), ids=ON_GPUS)
def test_every_edit_for_gpus_finds_its_text_exactly_once(one):
    texts = trees.edited(ROOT, (*one.injected, *MARKS_AND_DELAYS))
    shared = trees.edited(ROOT, MARKS_AND_DELAYS)
    assert len({str(native_digest("cuda", ROOT, edits)) for edits in (None, shared, texts)}) == 3


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_every_edit_of_the_hunt_finds_its_text_exactly_once(mutant):
    texts = trees.edited(ROOT, (*mutant.edits, *SHORT_ROWS))
    assert native_digest("sim", ROOT, texts) != native_digest("sim", ROOT, trees.edited(ROOT, SHORT_ROWS))


def test_an_edit_whose_text_is_gone_is_noticed(tmp_path):
    first = next(iter(ON_GPUS.values()))
    gone = replace(first, mark=(first.mark[0], "no such text"))
    with pytest.raises(TreeError, match="expected 'no such text' once, received it 0 times"):
        trees.copied(ROOT, tmp_path, gone.injected)


def test_what_gpus_run_is_hunted_too_and_has_a_library_of_its_own():
    hunted = {batch.trials[0].control for batch in BATCHES["sim"]}
    assert {*ON_GPUS, NOTHING} == hunted
    assert len({one.injected for one in ON_GPUS.values()}) == len(ON_GPUS) == 30


def test_every_delay_has_a_place_of_its_own_beside_the_faults():
    assert len({delay.place for delay in DELAYS.values()} | {FAULT_PLACE}) == len(DELAYS) + 1


@pytest.mark.requires("nvcc")
def test_an_edited_library_builds_reports_its_sources_and_exports_its_faults():
    built = trees.library(ROOT, (*trial_of("the exit barrier is skipped").injected, *MARKS_AND_DELAYS))
    content = Path(built.path).read_bytes()
    assert built.digest.encode() in content
    assert built.digest != str(native_digest("cuda"))
    assert b"afdep_faults_told" in content


@pytest.mark.requires("nvcc")
def test_an_edited_library_that_does_not_compile_is_an_error():
    with pytest.raises(BuildError):
        trees.library(ROOT, (trees.Edit("vendor/elastic/prim.cuh", "", "\nno such thing;\n"),))


@pytest.mark.parametrize("trial", LATE_ONES, ids=lambda one: f"{one.arm}-{one.layout}-{one.late}")
def test_kernels_are_exact_with_each_delay_and_each_delay_has_happened(trial):
    row = run_simulated(trial)
    assert (program.outcome(row), row.marked, row.exact) == (EXACT, True, SMALL.exchanges * ROUNDS)


@pytest.mark.parametrize("late", [None, "rows"])
def test_a_fault_leaves_its_mark_and_is_caught_where_rows_are_late(late):
    row = run_simulated(trial_of(DRAINED, late))
    assert row.marked
    assert program.outcome(row) == ("passed" if late is None else "caught: mismatch")


def test_every_trial_runs_once_and_those_that_may_end_a_process_have_starts_of_their_own_behind_all_others():
    restarts = [{one.fault is not None and one.fault.restarts for one in batch.trials} for batch in BATCHES["cuda"]]
    assert len(set(TRIALS)) == len(TRIALS)
    assert restarts == [{False}, {False}, {True}]
    assert [(batch.layout, {one.layout for one in batch.trials}) for batch in BATCHES["cuda"]] == [
        ("1A1F", {"1A1F"}),
        ("2A2F", {"2A2F"}),
        ("1A1F", {"1A1F"}),
    ]
    assert {one.arm for one in TRIALS if one.control == AS_SHIPPED} == {"m2n", "afdep"}


@pytest.mark.parametrize("batch", BATCHES["cuda"], ids=["1A1F", "2A2F", "restarts"])
def test_a_start_has_the_library_of_each_of_its_trials_and_no_other(batch):
    assert {one.edits(batch) for one in batch.trials} - {()} == set(batch.built)
    assert [one.control == AS_SHIPPED for one in batch.trials] == [one.edits(batch) == () for one in batch.trials]


def test_kernels_that_must_be_exact_come_first_in_their_start():
    for batch in BATCHES["cuda"]:
        assert [key for key, _ in groupby(one.expects for one in batch.trials)] in (["exact", "caught"], ["caught"])


ENDS = [
    ({}, "passed"),
    ({0: (MISMATCH, "rows differ")}, "caught: mismatch"),
    ({0: (NAMED, "WaitTimeoutError"), 1: (MISMATCH, "rows differ")}, "caught: named error"),
    ({0: (NAMED, "WaitTimeoutError"), 1: (FAULT, "illegal address")}, "caught: device fault"),
    ({1: (STUCK, "still runs")}, "caught: hang"),
]


@pytest.mark.parametrize(("ends", "outcome"), ENDS, ids=[f"{outcome}-{len(ends)}" for ends, outcome in ENDS])
def test_a_faults_outcome_is_what_the_gravest_rank_says(ends, outcome):
    said = {rank: said_of(*ends.get(rank, ()), marks=(0,)) for rank in range(2)}
    row = judged(trial_of(DRAINED), said)
    assert (program.outcome(row), row.status, row.native_digest) == (outcome, "ok", DIGEST)
    gravest = [f"rank {rank}: {words}" for rank, (kind, words) in ends.items() if outcome == f"caught: {kind}"]
    assert row.said == ("; ".join(gravest) or None)


GONE = said_of(LOST, "RuntimeError: a peer is gone", marks=(0,))
BROKEN = said_of(LOST, "IndexError: of the harness itself")


def test_a_fault_in_which_ranks_were_lost_is_void_and_says_how():
    row = judged(trial_of(DRAINED), {0: GONE, 1: BROKEN})
    assert (row.status, row.reason) == ("void", f"rank 0: {GONE['failed']}; rank 1: {BROKEN['failed']}")


def test_a_mark_of_a_rank_that_was_lost_counts():
    row = judged(trial_of(DRAINED), {0: GONE, 1: said_of(FAULT, "illegal address")})
    assert (program.outcome(row), row.said) == ("caught: device fault", "rank 1: illegal address")


def test_what_must_be_exact_and_was_interrupted_is_void_though_ranks_were_lost():
    row = judged(trial_of(AS_SHIPPED), {0: GONE}, {1: "signal: SIGTERM"}, void="interrupted by SIGTERM")
    assert row.status == "void"


@pytest.mark.parametrize(
    ("said", "endings", "outcome"),
    [
        ({0: said_of(), 1: said_of()}, {}, EXACT),
        ({0: said_of(MISMATCH, "rows differ"), 1: said_of()}, {}, "failed"),
        ({0: GONE}, {1: "exit code 9"}, "failed"),
        ({0: GONE, 1: BROKEN}, {}, "failed"),
    ],
    ids=["exact", "wrong", "one lost", "both lost"],
)
def test_what_must_be_exact_is_exact_or_has_failed(said, endings, outcome):
    assert program.outcome(judged(trial_of(AS_SHIPPED), said, endings)) == outcome


@pytest.mark.parametrize("marks", [(), (0,), (2,)])
def test_an_outcome_without_its_marks_is_void(marks):
    said = {rank: said_of(MISMATCH, "rows differ", marks) for rank in range(2)}
    row = judged(trial_of(DRAINED, "rows"), said)
    assert (row.status, row.marked, row.caught) == ("void", False, None)
    assert "never ran; rank 0: rows differ" in row.reason


def test_marks_of_different_ranks_count_together():
    said = {rank: said_of(MISMATCH, "rows differ", (2 * rank,)) for rank in range(2)}
    assert program.outcome(judged(trial_of(DRAINED, "rows"), said)) == "caught: mismatch"


@pytest.mark.parametrize("control", [DRAINED, AS_SHIPPED])
def test_another_library_than_was_built_is_void(control):
    reason = f"expected the library {DIGEST}, received nffffffff"
    row = judged(trial_of(control), {}, void=reason)
    assert (row.status, row.reason) == ("void", reason)


def test_a_rank_that_said_nothing_leaves_a_void_that_says_why():
    row = judged(trial_of(DRAINED), {0: said_of(marks=(0,))}, {1: "signal: SIGABRT"})
    assert (row.status, row.reason) == ("void", "rank 1: signal: SIGABRT")


@pytest.mark.parametrize("control", [DRAINED, AS_SHIPPED])
def test_what_no_machine_could_run_is_void_and_has_run_no_exchange(control):
    row = judged(trial_of(control), {}, void="needs GPUs: none")
    assert (row.status, row.reason, row.exchanges) == ("void", "needs GPUs: none", None)


def test_a_trial_behind_one_that_ended_its_ranks_has_no_row_and_is_left():
    assert program.judge(PLAN, WITHOUT, trial_of(DRAINED), Ended({}, {}, 2)) == []


REFUSED = [
    ("shape.hidden=1500", "expected a multiple of 1,024, received 1500"),
    ("timeout_s=0", "timeout_s: expected 0.01 to 86,400, received 0"),
    ("limit_s=nan", "limit_s: expected a number, received"),
    ("stuck_s=inf", "stuck_s: expected"),
    ("layouts=[3A3F]", "expected a multiple of the 3 FFN ranks of 3A3F, received 64"),
    ("shape.transport_sms=1000", "transport_sms: expected 1..132, received 1000"),
    ("shape.num_experts=6", "expected at least 8 experts for distinct lanes, received 6"),
    ("backends=[tpu]", "backends: expected one it knows, received 'tpu'"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_setting_of_no_use_is_refused(text, message):
    with pytest.raises((HarnessError, AfdepError), match=message):
        settings_of("faults", text)


@pytest.mark.parametrize(("backends", "count"), [("[sim]", 32), ("[cuda]", 98), ("[sim,cuda]", 130)])
def test_a_plan_has_the_trials_of_the_backends_that_are_asked_for(backends, count):
    blocks = program.blocks(settings_of("faults", f"backends={backends}"), ())
    assert sum(len(batch.trials) for block in blocks for batch in block.batches) == count


def test_there_is_one_round():
    assert program.blocks(SETTINGS, [program.Record()]) == ()
    assert Trial(NOTHING, "afdep").expects == EXACT
