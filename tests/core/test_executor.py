"""What a plan lacks is run once, in fresh processes; whatever a process does, its trials have a record that says so."""

import os
import signal
from dataclasses import replace

import pytest

from harness.core import launch
from harness.core import plan as plans
from harness.core.journal import Attempt, Told
from harness.machine.gpus import Gpus
from harness.records import files
from tests.core.conftest import said


def test_every_trial_has_one_row_and_a_second_run_measures_nothing(bench):
    file = bench.plan(["ok", "ok"], ["ok"])
    rows = bench.run(file, jobs=2)
    assert said(rows) == [(0, "ok"), (1, "ok"), (2, "ok")]
    assert [row.said for row in rows] == ["done 0", "done 1", "done 2"]
    assert bench.run(file) == rows


def test_a_row_says_where_it_comes_from(bench):
    file = bench.plan(["ok"])
    executor = bench.executor(file)
    executor.execute()
    (row,) = bench.rows(file)
    expected = (file.plan_hash, "toy", executor.run_name, "command", 1, file.plan.measuring_digest)
    assert (row.plan_hash, row.study, row.run, row.command, row.attempt, row.measuring_digest) == expected
    assert row.key == file.plan.trial_key(file.plan.blocks[0].batches[0], file.plan.blocks[0].batches[0].trials[0])
    assert row.seconds > 0
    assert row.created == "2026-01-02T00:00:00+00:00"


@pytest.mark.parametrize("death", ["die:9", "die:11", "die:40", "exit:3"])
def test_a_trial_that_ends_its_process_is_named_and_those_behind_it_are_run(bench, death):
    rows = bench.run(bench.plan(["ok", death, "ok", "ok"]))
    assert said(rows) == [(0, "ok"), (1, "failed"), (2, "ok"), (3, "ok")]
    cause = {"die:9": "SIGKILL", "die:11": "SIGSEGV", "die:40": "signal 40", "exit:3": "exit code 3"}[death]
    assert cause in rows[1].reason


def test_an_exception_is_the_reason_of_its_trial(bench):
    rows = bench.run(bench.plan(["ok", "raise:all is wrong", "ok"]))
    assert said(rows) == [(0, "ok"), (1, "failed"), (2, "ok")]
    assert rows[1].reason == "ValueError: all is wrong"


def test_a_batch_whose_every_start_brings_something_is_started_again_until_nothing_is_left(bench):
    rows = bench.run(bench.plan(["die:9", "die:9", "die:9"]))
    assert said(rows) == [(0, "failed"), (1, "failed"), (2, "failed")]


def test_what_cannot_be_measured_here_voids_the_rest_of_its_batch_alone(bench):
    rows = bench.run(bench.plan(["ok", "void:no GPUs", "ok"], ["ok"]))
    assert said(rows) == [(0, "ok"), (1, "void"), (2, "void"), (3, "ok")]
    assert rows[1].reason == "no GPUs"


def test_a_process_that_takes_too_long_is_ended_and_says_so(bench):
    rows = bench.run(bench.plan(["ok", "sleep:60"]), timeout_s=1.5)
    assert said(rows) == [(0, "ok"), (1, "failed")]
    assert "timeout: still running after 1.5 s" in rows[1].reason


def test_what_a_process_prints_is_no_event(bench):
    (row,) = bench.run(bench.plan(["fake"]))
    assert (row.status, row.said) == ("ok", "done 0")


def test_a_reason_is_bounded_however_much_a_process_says(bench):
    (row,) = bench.run(bench.plan(["loud:5000000"]))
    assert row.status == "failed"
    assert row.reason.startswith("RuntimeError: yyy")
    assert len(row.reason) < 1000


def test_a_module_of_ours_that_the_plan_does_not_name_voids_its_batch(bench):
    (row,) = bench.run(bench.plan(["lazy:harness.report.markdown"]))
    assert row.status == "void"
    assert "harness/report/markdown.py" in row.reason


def test_a_module_of_others_voids_nothing(bench):
    assert said(bench.run(bench.plan(["lazy:colorsys"]))) == [(0, "ok")]


def test_a_pair_that_lost_a_side_counts_not_at_all_and_is_run_again_as_a_whole(bench, tmp_path):
    file = bench.plan(["ok"], [f"once:{tmp_path / 'died'}"], on_loss="void")
    assert said(bench.run(file)) == [(0, "ok"), (1, "failed")]
    rows = bench.run(file)
    assert said(rows) == [(0, "ok"), (0, "ok"), (1, "failed"), (1, "ok")]
    assert len({row.run for row in rows if row.attempt == 2}) == 1


def test_where_trials_count_by_themselves_only_what_failed_is_run_again(bench, tmp_path):
    file = bench.plan(["ok"], [f"once:{tmp_path / 'died'}"])
    bench.run(file)
    assert said(bench.run(file)) == [(0, "ok"), (1, "failed"), (1, "ok")]


def test_rounds_follow_from_rows_until_there_is_none(bench):
    file = bench.plan(["ok", "ok"], rounds=3)
    assert [(row.round, row.number) for row in bench.run(file)] == [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    assert sorted(path.name for path in file.path.parent.glob("*.round*")) == [
        f"{file.plan_hash}.round1.json",
        f"{file.plan_hash}.round2.json",
    ]


def test_a_round_that_is_written_is_never_derived_again(bench):
    file = bench.plan(["ok"], rounds=2)
    bench.run(file)
    written = file.path.with_name(f"{file.plan_hash}.round1.json")
    before = written.read_bytes()
    assert file.add_round(1, ()) == list(file.rounds())[1]
    assert written.read_bytes() == before


def test_scratch_and_journals_are_gone_behind_a_run(bench):
    file = bench.plan(["ok"], ["void:x"])
    bench.run(file)
    assert list((bench.folder / "scratch").iterdir()) == []
    assert list((bench.folder / "journals").rglob("*.jsonl")) == []


def test_what_a_failed_process_said_is_kept(bench):
    file = bench.plan(["die:9"])
    executor = bench.executor(file)
    executor.execute()
    (folder,) = executor.failures
    assert "about to die" in (folder / "0.stderr").read_text()


def test_a_changed_source_voids_its_batch(bench, made, tmp_path):
    import shutil

    from harness.core.trees import Slots

    shutil.copytree(made.slots.root, tmp_path / "slots")
    with (tmp_path / "slots" / "slot0" / "afdep" / "layout.py").open("a") as stream:
        stream.write("# changed\n")
    (row,) = bench.run(bench.plan(["ok"]), slots=Slots(tmp_path / "slots", 1))
    assert row.status == "void"
    assert "source changed since the plan" in row.reason


def test_a_stopped_run_records_what_it_was_at_as_void(bench, tmp_path):
    import threading

    file = bench.plan(["ok", f"wait:{tmp_path / 'go'}"], ["ok"], on_loss="void")
    executor = bench.executor(file)
    thread = threading.Thread(target=executor.execute)
    thread.start()
    while not (tmp_path / "go.arrived").exists():
        pass
    executor.stop("interrupted by SIGTERM")
    thread.join()
    rows = bench.rows(file)
    assert said(rows) == [(0, "void"), (1, "void")]
    assert {row.reason for row in rows} == {"interrupted by SIGTERM"}


def test_every_step_of_a_run_has_a_name(bench):
    names: list[str] = []
    files.reached.append(names.append)
    try:
        bench.run(bench.plan(["ok"], rounds=2))
    finally:
        files.reached.remove(names.append)
    assert {"journal", "seal", "remove", "write", "fsync", "check", "link", "round"} <= set(names)


def test_processes_start_under_their_tool(bench):
    (row,) = bench.run(bench.plan(["ok"], tool=("/usr/bin/env", "TOLD=1")))
    assert row.status == "ok"
    assert os.access("/usr/bin/env", os.X_OK)
    assert signal.SIGKILL == 9


def test_a_row_of_a_gpu_has_its_driver_and_its_clock_before_and_after(bench):
    executor = bench.executor(bench.plan(["ok"]))
    own = {"gpu": 1, "driver": "580.95", "sm_mhz": "1980", "throttle": "0x0"}
    other = {"gpu": 0, "driver": "1.0", "sm_mhz": "345", "throttle": "0x4"}
    states = [other, own, other, {**own, "sm_mhz": "1755", "throttle": "0x8"}]
    attempt = Attempt(0, 0, 0, (0,), 1, "r1", "command")
    told = Told(attempt, said={0: {0: {"said": "done"}}}, opened={0: {"gpu": 1}}, states=states, sealed=True)
    (row,) = executor.ledger.record(told)
    assert (row.driver, row.sm_mhz, row.throttle) == ("580.95", (1980.0, 1755.0), "0x0, 0x8")


@pytest.mark.parametrize(
    ("gpus", "torch", "expected"),
    [
        ("needs GPUs: no driver", True, "needs GPUs: no driver"),
        (Gpus(4, "NVIDIA H200", 132), False, "needs torch, which this Python lacks"),
        (Gpus(1, "NVIDIA H200", 132), True, "2A2F as placed needs 4 GPUs, this machine shows 1"),
    ],
)
def test_a_batch_that_this_machine_has_no_place_for_is_void_at_once(bench, monkeypatch, gpus, torch, expected):
    monkeypatch.setattr(launch.gpus, "found", lambda: gpus)
    monkeypatch.setattr(launch, "find_spec", lambda name: object() if torch else None)
    file = bench.plan(["ok"])
    batch = replace(file.plan.blocks[0].batches[0], backend="cuda", layout="2A2F", ranks_per_gpu=1)
    trees = (replace(file.plan.trees[0], native=(("cuda", "n1"),)),)
    plan = replace(file.plan, trees=trees, blocks=(replace(file.plan.blocks[0], batches=(batch,)),))
    (row,) = bench.run(plans.save(bench.folder / "plans", plan, "now", "command"))
    assert (row.status, row.reason) == ("void", expected)
