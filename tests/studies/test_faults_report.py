"""What is made of the records of injected faults: the page, the summary and the exit status; and what the hunt says."""

from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from afdep.errors import BuildError
from harness.records import read, record_files, table
from harness.report.results import Part, Results
from harness.studies.faults import program, report, simulator
from harness.studies.faults.program import Record
from harness.studies.faults.trials import AS_SHIPPED, NOTHING, ON_GPUS, Trial
from harness.study import Batch, Ended, VoidError
from tests.studies.executing import prepare, run
from tests.studies.test_faults import BATCHES, DRAINED, PLAN, SETTINGS, TRIALS

LANDED = "the arrival is released when the sources were read, not when the stores landed"
RELEASE = "arrivals are added without releasing"
HUNT = {"backend": "sim", "machine": program.SIMULATED}
GPUS = {"backend": "cuda", "machine": "NVIDIA H200", "layout": "1A1F", "marked": True, "hidden": 2048, "tokens": 64}
SHAPE = {"num_experts": 64, "top_k": 8, "transport_sms": 8}
CAUGHT = {"expects": "caught", "arm": "afdep"}
LATE = {"late": "rows", "late_us": 200}
FOUND = "seed 3 (2A2F afdep): MismatchError: rows differ"
HUNTS = [
    Record(control=NOTHING, arm="afdep", seeds=200, **HUNT),
    Record(control=DRAINED, seeds=4, caught="hunt", said=FOUND, **HUNT, **CAUGHT),
    Record(control=LANDED, seeds=100, **HUNT, **CAUGHT),
    Record(control=RELEASE, seeds=2, caught="race checker", said="data race", **HUNT, **CAUGHT),
]
RUNS = [
    Record(control=AS_SHIPPED, arm="m2n", exchanges=192, exact=192, **GPUS, **SHAPE),
    Record(
        control=NOTHING,
        arm="m2n",
        status="failed",
        reason="rank 1: rows differ",
        exchanges=32,
        exact=3,
        **GPUS,
        **SHAPE,
        **LATE,
    ),
    Record(control=DRAINED, exchanges=192, exact=192, **GPUS, **SHAPE, **CAUGHT),
    Record(
        control=DRAINED,
        caught="mismatch",
        said="rank 1: rows differ",
        exchanges=32,
        exact=1,
        **GPUS,
        **SHAPE,
        **CAUGHT,
        **LATE,
    ),
    Record(control=LANDED, status="void", reason="needs GPUs: none", **GPUS, **SHAPE, **CAUGHT),
]
GOOD = [one for one in (*HUNTS, *RUNS) if one.status == "ok"]
MARKLESS = replace(RUNS[4], reason="places [0] never ran", exchanges=32, exact=0)


def results(*rows):
    """Records without a plan, as a file that was archived."""
    told = tuple(asdict(one) | {"table": one.table} for one in rows)
    return Results("faults", "example", (Part(None, table.Reading(told, (), 1)),))


def cells(text, words):
    line = next(line for line in text.splitlines() if line.startswith(f"| {words}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture(scope="module")
def text():
    return report.text(results(*HUNTS, *RUNS))


def test_records_come_back_as_they_were_written(tmp_path):
    table.write(tmp_path, "example", [*HUNTS, *RUNS])
    assert list(read(record_files(tmp_path)).of(Record)) == [*HUNTS, *RUNS]


def test_a_fault_has_its_hunt_beside_its_trials_in_columns_that_say_which_is_which(text):
    head = cells(text, "without the guard")
    assert head[2].startswith("simulated")
    assert head[4].startswith("measured")
    assert cells(text, DRAINED) == [DRAINED, "`afdep`", "4, MismatchError", "1A1F", "\u2014", "passed", "192"]
    assert "| rows, 200 us   | caught: mismatch" in text


@pytest.mark.parametrize(("control", "simulated"), [(LANDED, "not found in 100"), (RELEASE, "race checker")])
def test_a_fault_that_the_hunt_does_not_find_says_so(text, control, simulated):
    assert cells(text, control)[2] == simulated


def test_a_fault_that_no_gpu_ran_has_dashes(text):
    assert cells(text, RELEASE)[3:] == ["\u2014"] * 4


def test_a_void_trial_counts_no_exchange_and_gives_its_reason(text):
    assert cells(text, LANDED)[-2:] == ["void", "\u2014"]
    assert f"- void: {LANDED} (1A1F): needs GPUs: none" in text
    assert "void: 1 row: needs GPUs: none" in text


def test_kernels_that_must_be_exact_stand_by_layout_and_arm_beside_the_hunt(text):
    assert cells(text, "simulated: the hunt")[1:] == ["`afdep` exact, 200 seeds", "\u2014"]
    assert cells(text, "as shipped")[1:] == ["\u2014", "exact, 192 exchanges"]
    assert cells(text, "late rows, 200 us")[1:] == ["\u2014", "failed"]


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([*HUNTS, *RUNS], 1),
        (GOOD, 0),
        ([*GOOD, RUNS[4]], 3),
        ([*GOOD, MARKLESS], 0),
        ([MARKLESS], 3),
        ([HUNTS[0], *RUNS[2:4], replace(HUNTS[2], status="void", reason="no g++", seeds=None)], 3),
        ([replace(HUNTS[0], status="failed", reason="seed 1")], 1),
    ],
    ids=["failed", "good", "not run", "void", "void alone", "not hunted", "shipped kernels found"],
)
def test_the_exit_status_says_what_had_to_be_exact_and_what_was_not_run(rows, status):
    assert report.status(results(*rows)) == status


def test_what_had_to_be_exact_and_is_not_is_told():
    assert "measured, must be exact: 1 exact, 1 failed" in report.summary(results(*HUNTS, *RUNS))


def test_a_later_attempt_takes_the_place_of_a_void_one():
    first, later = replace(RUNS[4], key="k"), replace(RUNS[2], control=LANDED, key="k", attempt=2, run="r2")
    assert cells(report.text(results(first, later)), LANDED)[-2:] == ["passed", "192"]


CLEAN = {"ended": "exact", "seeds": 4, "digest": "n2"}
SAID = {**CLEAN, "ended": "hunt", "failed": FOUND}


@pytest.mark.parametrize(
    ("trial", "said", "outcome"),
    [
        (Trial(DRAINED, "afdep"), SAID, "caught: hunt"),
        (Trial(DRAINED, "afdep"), CLEAN, "passed"),
        (Trial(NOTHING, "afdep"), SAID, "failed"),
        (Trial(NOTHING, "afdep"), CLEAN, "exact"),
    ],
)
def test_a_seed_that_fails_is_a_catch_without_a_fence_and_a_failure_with_all(trial, said, outcome):
    (row,) = program.judge(PLAN, Batch((trial,)), trial, Ended({0: said}))
    assert (program.outcome(row), row.seeds, row.native_digest) == (outcome, 4, "n2")
    assert (row.said or row.reason) == said.get("failed")


@pytest.mark.parametrize(
    ("trial", "status"), [(Trial(DRAINED, "afdep"), "void"), (Trial(NOTHING, "afdep"), "failed")], ids=["fault", "none"]
)
def test_a_hunt_that_died_says_how_and_is_a_finding_where_nothing_is_wrong(trial, status):
    (row,) = program.judge(PLAN, Batch((trial,)), trial, Ended({}, endings={0: "signal: ended by SIGSEGV"}))
    assert (row.status, row.reason, row.seeds) == (status, "signal: ended by SIGSEGV", None)


RACE = "x\nWARNING: ThreadSanitizer: data race (pid=1)"


@pytest.fixture
def checked(monkeypatch, tmp_path):
    """The facts of a batch of the race checker, whose words are given."""

    def facts(code, said):
        done = SimpleNamespace(returncode=code, stdout="" if code else said, stderr=said if code else "")
        monkeypatch.setattr(simulator, "built", lambda tree, kind: tree)
        monkeypatch.setattr(simulator.subprocess, "run", lambda *command, **more: done)
        batch = next(batch for batch in BATCHES["sim"] if batch.trials[0].control == RELEASE)
        (one,) = simulator.run(batch, SimpleNamespace(settings=SETTINGS, folder=tmp_path))
        return one.facts

    return facts


@pytest.mark.parametrize(
    ("code", "said", "ended", "reason"),
    [(0, "clean", "exact", None), (66, RACE, "race checker", "data race")],
    ids=["clean", "race"],
)
def test_what_the_race_checker_says_is_told_with_the_digest_of_the_edited_tree(checked, code, said, ended, reason):
    facts = checked(code, said)
    assert (facts.get("failed"), facts["ended"], facts["seeds"]) == (reason, ended, 2)
    assert facts["digest"] != str(simulator.native_digest("sim"))


def test_a_race_checker_that_did_not_run_has_not_passed(checked):
    with pytest.raises(VoidError, match=r"received 'ld\.so: no such object'"):
        checked(1, "ld.so: no such object\n")


def test_a_machine_that_cannot_build_is_void(monkeypatch, tmp_path):
    def refuse():
        raise BuildError("compiler: expected g++ on the PATH, received none.", "Install it.")

    monkeypatch.setattr(simulator.build, "build", refuse)
    with pytest.raises(VoidError, match=r"expected g\+\+ on the PATH"):
        list(simulator.run(BATCHES["sim"][0], SimpleNamespace(settings=SETTINGS, folder=tmp_path)))


def test_a_small_plan_of_both_is_hunted_here_and_void_without_gpus(tmp_path):
    settings = replace(SETTINGS, shipped_seeds=5, layouts=("1A1F",))
    sim, cuda = program.blocks(settings, ())
    wanted = [one for one in sim.batches if one.trials[0].control in (NOTHING, "the exit barrier is skipped")]
    blocks = [replace(sim, batches=tuple(wanted)), replace(cuda, batches=cuda.batches[:1])]
    ran = run(prepare("faults", settings, tmp_path), tmp_path, blocks=tuple(blocks), gpus="needs GPUs: no driver")
    rows = {(one.backend, one.control): one for one in ran.rows}
    caught = rows["sim", "the exit barrier is skipped"]
    assert (caught.caught, caught.machine) == ("hunt", "h100-nvlink, small")
    assert caught.native_digest != rows["sim", NOTHING].native_digest
    assert {one.reason for one in ran.rows if one.backend == "cuda"} == {"needs GPUs: no driver"}
    assert report.status(ran.results) == 3


def test_faults_on_gpus_have_names_of_the_hunt():
    assert {one.control for one in TRIALS} - {NOTHING, AS_SHIPPED} == set(ON_GPUS)
