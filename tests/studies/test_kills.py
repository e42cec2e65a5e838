"""A screen and a validation that are killed anywhere go on to the rows that they would have had."""

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import study
from harness.core import plan as plans
from harness.core import planning
from harness.core.plan import PlanFile
from harness.desk.desk import real
from harness.desk.run import asked
from harness.records import files, read, record_files
from tests.core.conftest import Bench, drive, same, wait_until

ROOT = Path(__file__).resolve().parents[2]
STUDIES = {
    "screen": ("screen=grid", "layout=1A1F", "hidden=256", "routing=random", "tokens=[1]", "arm=[m2n,afdep]"),
    "validate": (
        "validation=small",
        "backends=[sim]",
        "validation.layouts=[1A1F]",
        "cases=[bucket-cycle]",
        "validation.every.arm=[afdep]",
        "validation.every.dtype=[bf16]",
    ),
}
STEPS = ("journal", "seal", "write", "fsync", "check", "link", "remove")
PATIENCE_S = 120


@dataclass
class Studied(Bench):
    """Runs of one plan of a real study."""

    file: PlanFile | None = None

    def rows(self, file: PlanFile) -> list[Any]:
        found = read(record_files(self.records(file)))
        assert not found.quarantined
        return list(found.of(study.program(file.plan.study).Record))


@pytest.fixture(scope="module", params=STUDIES)
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[planning.Planned]:
    """A study's plan, with its tree in place."""
    wanted, _ = asked(request.param, STUDIES[request.param], real())
    made = planning.make(wanted, ROOT, tmp_path_factory.mktemp("slots"), os.environ)
    yield made
    made.slots.remove()


@pytest.fixture
def bench(planned: planning.Planned, tmp_path: Path) -> Studied:
    bench = Studied(planned, tmp_path)
    bench.file = plans.save(tmp_path / "plans", planned.plan, "now", "command")
    return bench


@pytest.fixture(scope="module")
def uninterrupted(planned, tmp_path_factory) -> dict[str, Any]:
    """What the rows of a run that nobody interrupts say, and which steps it takes."""
    bench = Studied(planned, tmp_path_factory.mktemp("uninterrupted"))
    file = plans.save(bench.folder / "plans", planned.plan, "now", "command")
    reached: list[str] = []
    files.reached.append(reached.append)
    try:
        rows = bench.run(file)
    finally:
        files.reached.remove(reached.append)
    assert rows
    return {"rows": counting(rows), "steps": set(reached)}


def counting(rows) -> dict[tuple[str, int | None], dict[str, Any]]:
    """The rows that count by trial and rank, without times, hosts, attempts and runs."""
    return {(row.key, getattr(row, "rank", None)): told(row) for row in rows if row.status == "ok"}


def told(row) -> dict[str, Any]:
    own = same(row)
    return {name: held for name, held in own.items() if not name.endswith("_s")}


def test_a_run_takes_every_step(uninterrupted):
    assert uninterrupted["steps"] >= set(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_it_goes_on_to_the_same_rows(bench, uninterrupted, step):
    assert drive(bench, bench.file, at=step).wait(PATIENCE_S) == -signal.SIGKILL
    assert counting(bench.run(bench.file)) == uninterrupted["rows"]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.night) for seed in range(4, 30))])
def test_killed_at_a_random_moment_it_goes_on_to_the_same_rows(bench, uninterrupted, seed):
    driver = drive(bench, bench.file)
    try:
        driver.wait(random.Random(seed).uniform(0.3, 3.0))
    except Exception:
        driver.kill()
        driver.wait(PATIENCE_S)
    assert counting(bench.run(bench.file)) == uninterrupted["rows"]


def test_what_a_killed_run_was_at_is_on_record(bench):
    driver = drive(bench, bench.file)
    wait_until(lambda: bool(list((bench.folder / "journals").rglob("*.jsonl"))), "the first batch")
    driver.kill()
    driver.wait(PATIENCE_S)
    reasons = {row.reason for row in bench.run(bench.file) if row.status == "void"}
    assert reasons == {"interrupted: its run ended without a word"}
