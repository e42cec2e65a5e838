"""A small fit through the executor, killed twice on its way: what it finds, its page and its machine file."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from afdep import Machine
from harness.core import plan as plans
from harness.core import planning
from harness.core.codec import decode, encode
from harness.core.executor import Executor, Limits
from harness.core.identity import Sources
from harness.core.plan import Workspace
from harness.core.planning import Wanted
from harness.core.trees import Slots
from harness.errors import Exit, HarnessError
from harness.records import files, table
from harness.records.table import Reading
from harness.report.results import Part, Results
from harness.studies.fit import program, report
from harness.studies.fit.fit import NO_EFFECT
from harness.study import Asked
from tests.studies import fits
from tests.studies.bench import ROOT
from tests.studies.executing import told_by
from tests.studies.fits import LATENCY, MACHINE, RATE

TINY = ("layout=2A2F", "hidden=2048", "dtype=bf16", "routing=random", "tokens=[1]", "backend.num_exchanges=1")
FEW_STARTS = 8
"""Trials of a batch at least, so that a round of this fit has one or two."""
DRIVER = """
import json, sys
from tests.studies import test_fit_run
test_fit_run.driven(json.loads(sys.argv[1]))
"""


def settings():
    more = ("fit.slope_exchanges=1", "fit.evaluations=3", "fit.pull_pct=2")
    return fits.published(*TINY, *more, only=[LATENCY, RATE, "atomic_ns"], free=[LATENCY, "atomic_ns"])


def executor(file, slots, sources, folder):
    """A run of the plan, two processes at a time."""
    now = itertools.repeat(datetime(2026, 1, 2, tzinfo=UTC))
    return Executor(
        *(file, slots, sources, Workspace(folder), Limits(2, 60.0)),
        told_by(lambda trial, rows: None),
        os.environ,
        lambda: next(now),
        "afdep-bench fit",
    )


def driven(told):
    """Run the plan in this process, which is killed as it reaches a step for the n-th time."""
    reached = itertools.count()

    def kill(name):
        if name == told["at"] and next(reached) == told["nth"]:
            os.kill(os.getpid(), signal.SIGKILL)

    files.reached.append(kill)
    program.LEAST = FEW_STARTS
    file, folder = plans.load(files.Path(told["plan"])), files.Path(told["folder"])
    executor(file, Slots(files.Path(told["slots"]), 1), decode(Sources, told["sources"]), folder).execute()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The plan, its trees and the folder of its records, once it is done: killed at a record and at a round."""
    folder, read = tmp_path_factory.mktemp("run"), settings()
    patch = pytest.MonkeyPatch()
    patch.setattr(program, "LEAST", FEW_STARTS)
    series = read.series[0]
    shape = {"layout": series.row.layout, **series.exchange.shape_of(series.row), "machine": MACHINE}
    asked = tuple(Asked(arm, 0, "sim", shape) for arm in read.arms)
    made = planning.make(Wanted("fit", MACHINE, read, arms=asked), ROOT, folder / "trees", os.environ)
    file = plans.save(folder / "plans", made.plan, "2026-01-02T00:00:00+00:00", "afdep-bench fit")
    told = {
        "plan": str(file.path),
        "slots": str(made.slots.root),
        "sources": encode(made.sources),
        "folder": str(folder),
    }
    for at, nth in (("link", 1), ("round", 1)):
        words = json.dumps({**told, "at": at, "nth": nth})
        done = subprocess.run([sys.executable, "-c", DRIVER, words], cwd=ROOT, check=False, timeout=120)
        assert done.returncode == -signal.SIGKILL
    executor(file, made.slots, made.sources, folder).execute()
    patch.undo()
    return file, made, folder


def results(run, reading=None):
    file, _, folder = run
    return Results("fit", MACHINE, (Part(file, reading or table.read(table.record_files(folder / "records"))),))


def test_a_fit_that_was_killed_twice_finds_what_one_process_finds(run):
    rows = results(run).of(program.Record)
    found, expected = program.solved(settings(), rows), fits.solved(settings())
    assert (found.steps, found.found) == (expected.steps, expected.found)
    assert [found.us[kind].tolist() for kind in found.us] == [expected.us[kind].tolist() for kind in expected.us]


def test_a_fit_takes_the_steps_that_it_always_took(run):
    fit, golden = program.solved(settings(), results(run).of(program.Record)), fits.golden("published")
    assert fits.steps_of(fit) == pytest.approx(np.array(golden["steps"]), rel=1e-12)
    assert {kind: fit.us[kind].tolist() for kind in ("simulated", "refitted")} == {
        kind: golden[kind] for kind in ("simulated", "refitted")
    }
    assert fit.slopes.ravel().tolist() == golden["slopes"]
    assert {str(alone): us.tolist() for (_, alone), us in fit.refits.items()} == golden["refits"]


def test_no_cell_counts_twice_and_each_says_what_it_simulated(run):
    rows = results(run).of(program.Record)
    assert max(Counter(row.key for row in rows if row.status == "ok").values()) == 1
    assert {row.round for row in rows} == set(range(len(list(run[0].rounds()))))
    assert len({row.run for row in rows if row.status == "ok"}) > 1
    own = {(row.layout, row.tokens, row.arm, row.num_experts, row.transport_sms, row.machine) for row in rows}
    assert own == {("2A2F", 1, arm, 128, 24, MACHINE) for arm in settings().arms}
    assert {row.machine_digest for row in rows} == {run[0].plan.machine_digest} != {None}


def test_another_run_of_a_plan_that_is_done_simulates_nothing(run):
    file, made, folder = run
    before = sorted(folder.rglob("*.parquet"))
    again = executor(file, made.slots, made.sources, folder)
    assert again.num_missing() == 0
    again.execute()
    assert sorted(folder.rglob("*.parquet")) == before


def test_a_fit_that_is_done_is_reported(run, tmp_path):
    found = results(run)
    page = report.text(found, [(path.name, words) for path, words in report.draw(found, tmp_path, "small")])
    assert page.startswith(f"# Fit {MACHINE}\n")
    assert page.count("No slope was taken of `") == sum(one.kind == NO_EFFECT for one in settings().constants) > 1
    assert "![Slope of every constant in every cell](small-slopes.png)" in page
    assert "`nvlink_latency_ns`" in report.summary(found)
    assert report.status(found) == Exit.OK


@pytest.mark.parametrize(
    ("keep", "status"), [("nothing", Exit.NOTHING), ("some", Exit.UNCLEAR), ("failed", Exit.ERROR)], ids=str
)
def test_a_fit_that_is_not_done_says_so(run, keep, status):
    rows = [dict(row) for row in results(run).rows if row["status"] == "ok"]
    rows = rows[: 0 if keep == "nothing" else 2]
    if keep == "failed":
        rows[0] |= {"status": "failed", "reason": "exit 1", "latency_us": None, "samples_us": None}
    found = results(run, Reading(tuple(rows)))
    assert report.status(found) == status
    assert report.UNFINISHED in report.summary(found)
    assert report.UNFINISHED in report.text(found)
    with pytest.raises(HarnessError, match="expected a finished fit"):
        report.products(found, ROOT / "new.yaml", ROOT / "conf")


@pytest.fixture
def conf(tmp_path):
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    return tmp_path / "conf"


def test_the_written_machine_differs_from_the_fitted_in_the_fitted_constants_alone(run, conf):
    found = results(run)
    (path,) = report.products(found, conf / "machine" / "refitted.yaml", conf)
    old, new = ((conf / "machine" / f"{name}.yaml").read_text().splitlines() for name in (MACHINE, "refitted"))
    changed = [two for one, two in zip(old, new, strict=True) if one != two]
    values = program.solved(settings(), found.of(program.Record)).found
    written = Machine.load(path.stem, path.parent).constants()
    assert {one.partition(":")[0] for one in changed} == set(values)
    assert {name: written[name] for name in values} == pytest.approx(values, rel=1e-3)
    words = "fitted on the published 2A2F, 2,048, random (2 round trips, 1 paired changes) by the study fit"
    assert all(words in one and one.endswith(f'{MACHINE}, from 500"}}') for one in changed)


@pytest.mark.parametrize("name", [f"{MACHINE}.yaml", "new.txt"])
def test_what_is_there_is_never_replaced(run, conf, name):
    before = (conf / "machine" / f"{MACHINE}.yaml").read_bytes()
    with pytest.raises(HarnessError, match=r"write: expected the path of a new .yaml file"):
        report.products(results(run), conf / "machine" / name, conf)
    assert (conf / "machine" / f"{MACHINE}.yaml").read_bytes() == before


def test_a_machine_file_that_has_changed_since_its_fit_is_not_written_over(run, conf):
    path = conf / "machine" / f"{MACHINE}.yaml"
    path.write_text(path.read_text().replace("poll_ns: {value: 220", "poll_ns: {value: 221"))
    with pytest.raises(HarnessError, match="a machine file that is as it was"):
        report.products(results(run), conf / "machine" / "refitted.yaml", conf)


def test_fits_of_several_plans_stand_on_one_page(run, tmp_path):
    one = results(run)
    both = replace(one, parts=one.parts * 2)
    names = [path.name for path, _ in report.draw(both, tmp_path, "two")]
    assert names == ["two-errors.png", "two1-errors.png", "two-slopes.png", "two1-slopes.png"]
    assert report.text(both).count("## Which constants the figures tell") == 2
