"""A validation from its plan to its report: real processes, what one that is killed leaves, and the tables."""

import os
import re
import signal
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from harness.core import plan as plans
from harness.core import planning
from harness.core.executor import Executor, Limits
from harness.core.plan import Workspace
from harness.core.planning import Wanted
from harness.errors import Exit
from harness.machine import gpus
from harness.machine.gpus import Gpus
from harness.records.table import read, record_files
from harness.report.results import Part, Results
from harness.studies.validate import program, report
from harness.study import Batch, Block
from tests.studies.executing import told_by
from tests.studies.validating import ROOT, SMALL, at, judged, perform, settings, setups

FEW = (SMALL, "validation.layouts=[1A1F,2A2F]", "cases=[bucket-cycle,host-counts]")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The plan of few trials on both backends, with its tree in place."""
    found = settings(*FEW)
    wanted = Wanted("validate", "validate", found, machine=program.machine(found))
    return planning.make(wanted, ROOT, tmp_path_factory.mktemp("slots"), os.environ)


class Bench:
    """A folder where plans run."""

    def __init__(self, made, folder):
        self.made, self.folder, self.told = made, folder, []

    def save(self, *batches):
        blocks = tuple(Block((one,)) for one in batches)
        return plans.save(self.folder / "plans", replace(self.made.plan, blocks=blocks), "now", "command")

    def run(self, file, judged=lambda trial, rows: None):

        def listen(trial, rows):
            self.told.append((trial, rows[0].status))
            judged(trial, rows)

        now = datetime(2026, 1, 2, tzinfo=UTC)
        self.executor = Executor(
            *(file, self.made.slots, self.made.sources, Workspace(self.folder), Limits(2, 60.0)),
            *(told_by(listen), os.environ, lambda: now, "command"),
        )
        self.executor.execute()
        return self.results(file)

    def results(self, file):
        return Results("validate", "validate", (Part(file, read(record_files(self.folder / "records"))),))


@pytest.fixture
def bench(made, tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "found", lambda: "needs GPUs: none are here")
    return Bench(made, tmp_path)


def test_trials_of_both_backends_are_recorded_in_order_by_processes_of_their_own(bench):
    file = bench.save(*(batch for block in bench.made.plan.blocks for batch in block.batches))
    results = bench.run(file)
    records = results.of(program.Record)
    assert [one.backend for one in records] == ["sim"] * 24 + ["cuda"] * 24
    assert [one.status for one in records] == ["ok"] * 16 + ["void"] * 32
    assert {one.reason for one in records[24:]} == {"needs GPUs: none are here"}
    assert all(one.elements > 0 and one.native_digest.startswith("n") and one.cpu_s > 0 for one in records[:16])
    assert report.status(results) == Exit.OK
    assert len({one.key for one in records}) == 48
    assert bench.executor.num_missing() == 32  # what is void is run again


def batch_of(made, *indices):
    (first, *_) = (batch for block in made.plan.blocks for batch in block.batches)
    return Batch(tuple(first.trials[one] for one in indices), "sim")


def test_a_trial_whose_process_is_killed_is_named_and_the_others_run(bench):
    file = bench.save(batch_of(bench.made, 0, 1, 2, 3, 4, 5))

    def kill(trial, rows):
        if len(bench.told) == 2:
            (alive,) = bench.executor._alive
            os.kill(alive.children[0].pid, signal.SIGKILL)

    results = bench.run(file, kill)
    (failed,) = [one for one in results.of(program.Record) if one.status == "failed"]
    assert failed.reason == "signal: ended by SIGKILL; last on stderr: none"
    assert [status for _, status in bench.told].count("ok") == 5
    assert [failed.case, failed.layout] == ["bucket-cycle", "1A1F"]
    assert f"failed: bucket-cycle 1A1F {failed.arm} {failed.dtype} {failed.mode}: signal" in report.summary(results)
    assert report.status(results) == Exit.FOUND


def test_a_run_that_is_stopped_keeps_what_has_ended_and_the_next_one_runs_what_is_left(bench):
    file = bench.save(batch_of(bench.made, 0, 1, 2, 3))
    results = bench.run(file, lambda trial, rows: bench.executor.stop("interrupted by SIGINT"))
    kept = results.of(program.Record)
    assert [one.status for one in kept] == ["ok"] * (len(kept) - 1) + ["void"]
    assert (kept[-1].reason, report.status(results)) == ("interrupted by SIGINT", Exit.OK)
    records = bench.run(file).current(program.Record)
    assert [one.status for one in records] == ["ok"] * 4
    assert {one.run for one in kept} < {one.run for one in records}


@pytest.mark.requires("torch")
def test_rank_processes_that_find_no_gpu_fail_a_trial_and_say_so(bench, monkeypatch):
    monkeypatch.setattr(gpus, "found", lambda: Gpus(10**6, "NVIDIA H200", 132))
    (*_, last) = (batch for block in bench.made.plan.blocks for batch in block.batches if batch.layout == "1A1F")
    (record,) = bench.run(bench.save(replace(last, trials=last.trials[:1]))).of(program.Record)
    assert record.status == "failed"
    assert re.search(r"rank 0: RankError: rank 0: expected GPU \d+, received 0 of them", record.reason)


def results_of(*records):
    rows = tuple({**vars(one), "table": "trials", "key": f"k{index}"} for index, one in enumerate(records))
    return Results(
        "validate", "some", (Part(None, SimpleNamespace(rows=rows, quarantined=(), of=lambda kind: _of(rows, kind))),)
    )


def _of(rows, kind):
    return tuple(kind(**{name: held for name, held in row.items() if name != "table"}) for row in rows)


@pytest.fixture(scope="module")
def skewed():
    """Records of both backends; those of GPUs are void."""
    chosen = setups(SMALL, "validation.layouts=[1A1F,2A2F]", "cases=[skewed-routes]", "backends=[sim]")
    ran = [replace(judged(one, {0: perform(one)}), key=f"k{index}") for index, one in enumerate(chosen)]
    absent = [
        replace(one, backend="cuda", status="void", reason="needs GPUs", elements=0, protocol=None) for one in ran
    ]
    return [*ran, *absent]


def test_simulated_and_measured_trials_stand_in_tables_of_their_own(skewed):
    text = report.text(results_of(*skewed))
    simulated, measured = text.partition("## Measured")[::2]
    assert "| skewed-routes | ok 8 | ok 8 |" in simulated
    assert "void" not in simulated.partition("## Simulated")[2]
    assert "ok 8" not in measured.partition("## Cases")[0]
    assert "| skewed-routes | void 8 [1] | void 8 [1] |" in measured


def test_a_cell_with_several_endings_tells_all_of_them(skewed):
    bad = replace(skewed[0], status="failed", reason="why")
    text = report.text(results_of(bad, *skewed[1:8]))
    assert "failed 1 [1], ok 7" in text
    assert f"- [1] failed: skewed-routes 1A1F {bad.arm} {bad.dtype} {bad.mode}: why" in text


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["ok", "failed", "void"], Exit.FOUND),
        (["ok", "void"], Exit.OK),
        (["void", "void"], Exit.NOTHING),
        ([], Exit.NOTHING),
    ],
    ids=["failed", "some void", "all void", "none"],
)
def test_the_exit_status_says_what_was_found(skewed, statuses, expected):
    records = [replace(skewed[0], status=one, reason=None if one == "ok" else "why") for one in statuses]
    assert report.status(results_of(*records)) == expected


def test_the_latest_attempt_at_a_trial_counts(skewed):
    again = replace(skewed[0], attempt=2)
    before = replace(skewed[0], status="void", reason="needs a machine")
    rows = tuple({**vars(one), "table": "trials"} for one in (before, again))
    results = Results(
        "validate", "some", (Part(None, SimpleNamespace(rows=rows, quarantined=(), of=lambda kind: _of(rows, kind))),)
    )
    assert "1 ok, 0 failed, 0 void" in report.summary(results)


def test_pairs_that_a_plan_leaves_out_are_named_in_its_report(made, skewed):
    few = settings("validation=gpu", "validation.layouts=[1A1F]", "cases=[bucket-cycle]")
    file = SimpleNamespace(
        plan=replace(made.plan, settings=few, blocks=()), rounds=list, plan_hash="p", command="c", created="now"
    )
    part = Part(file, results_of(*skewed).parts[0].reading)
    assert "- left out of bucket-cycle, simulated: " in report.text(Results("validate", "some", (part,)))


def test_a_result_at_another_point_stands_in_another_row(skewed):
    cover = [replace(one, case="cover", hidden=hidden) for one, hidden in zip(skewed[:2], (2048, 4096), strict=True)]
    text = report.text(results_of(*cover))
    assert "| hidden 2048     | ok 1 |" in text
    assert "| hidden 4096     | ok 1 |" in text


@pytest.mark.parametrize("name", ["matrix", "h200-one-gpu", "h200-two-gpus"])
def test_an_archived_report_is_that_of_its_records(name):
    reading = read([ROOT / "records" / "validate" / f"{name}.parquet"])
    text = (ROOT / "reports" / "validate" / f"{name}.md").read_text("utf-8")
    assert text == report.text(Results("validate", name, (Part(None, reading),)))


def test_a_setup_may_be_moved_to_another_point():
    (one, *_) = setups(SMALL, "backends=[sim]")
    assert at(one, tokens=3).shape.capacity == 3
