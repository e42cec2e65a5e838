"""A run that is killed anywhere leaves nothing that is half done: the next one ends with the same rows."""

import os
import random
import signal

import pytest

from tests.core.conftest import Bench, drive, processes_in, said, same, toys, wait_until

STEPS = ("journal", "seal", "write", "fsync", "check", "link", "remove", "round")
PATIENCE_S = 60


@pytest.fixture(scope="module")
def uninterrupted(made, tmp_path_factory):
    """The rows of a run that nobody interrupts, by number."""
    bench = Bench(made, tmp_path_factory.mktemp("uninterrupted"))
    with toys():
        return {row.number: same(row) for row in bench.run(bench.plan(["ok"], ["ok"], rounds=2, on_loss="void"))}


@pytest.mark.parametrize("nth", [0, pytest.param(1, marks=pytest.mark.night)], ids=["first", "second"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_it_goes_on_to_the_same_rows(bench, uninterrupted, step, nth):
    file = bench.plan(["ok"], ["ok"], rounds=2, on_loss="void")
    status = drive(bench, file, at=step, steps=nth).wait(PATIENCE_S)
    assert status == (0 if (step, nth) == ("round", 1) else -signal.SIGKILL)
    rows = [row for row in bench.run(file) if row.status == "ok"]
    assert {row.number: same(row) for row in rows} == uninterrupted
    assert len(_runs_that_count(rows, (0, 1))) == 1


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.night) for seed in range(4, 30))])
def test_killed_at_a_random_moment_it_goes_on_to_the_same_rows(bench, uninterrupted, seed, tmp_path):
    file = bench.plan(["ok"], ["ok"], rounds=2, on_loss="void")
    driver = drive(bench, file)
    try:
        driver.wait(random.Random(seed).uniform(0.4, 2.5))
    except Exception:
        driver.send_signal(signal.SIGKILL)
        driver.wait(PATIENCE_S)
    rows = [row for row in bench.run(file) if row.status == "ok"]
    counting = {row.number: same(row) for row in rows}
    assert counting == uninterrupted


def _runs_that_count(rows, numbers):
    """The runs of the latest attempts at the two sides of a pair."""
    own = [max((row for row in rows if row.number == number), key=lambda row: row.attempt) for number in numbers]
    return {row.run for row in own}


def test_an_interruption_has_its_record(bench, tmp_path):
    file = bench.plan([f"wait:{tmp_path / 'go'}"], ["ok"], on_loss="void")
    driver = drive(bench, file)
    wait_until((tmp_path / "go.arrived").exists, "the first trial")
    driver.send_signal(signal.SIGKILL)
    driver.wait(PATIENCE_S)
    (tmp_path / "go").touch()
    rows = bench.run(file)
    assert said(rows) == [(0, "void"), (0, "ok"), (1, "ok")]
    assert rows[0].reason == "interrupted: its run ended without a word"


def test_a_killed_run_takes_its_processes_along(bench, tmp_path):
    file = bench.plan([f"wait:{tmp_path / 'never'}"])
    driver = drive(bench, file)
    wait_until((tmp_path / "never.arrived").exists, "the first trial")
    assert processes_in(bench.folder)
    driver.send_signal(signal.SIGKILL)
    driver.wait(PATIENCE_S)
    wait_until(lambda: not processes_in(bench.folder), "the end of the measuring process")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_ends_a_run_with_a_record_and_a_status_of_its_own(bench, tmp_path, number):
    file = bench.plan([f"wait:{tmp_path / 'never'}", "ok"], on_loss="void")
    driver = drive(bench, file)
    wait_until((tmp_path / "never.arrived").exists, "the first trial")
    driver.send_signal(number)
    assert driver.wait(PATIENCE_S) == 128 + number
    assert {(row.status, row.reason) for row in bench.rows(file)} == {("void", f"interrupted by {number.name}")}
    assert not processes_in(bench.folder)
    assert list((bench.folder / "scratch").iterdir()) == []


def test_where_trials_count_by_themselves_an_interrupted_run_keeps_those_that_were_done(bench, tmp_path):
    file = bench.plan(["ok", f"wait:{tmp_path / 'never'}", "ok"])
    driver = drive(bench, file)
    wait_until((tmp_path / "never.arrived").exists, "the second trial")
    driver.send_signal(signal.SIGTERM)
    driver.wait(PATIENCE_S)
    rows = bench.rows(file)
    assert said(rows) == [(0, "ok"), (1, "void")]
    assert rows[1].reason == "interrupted by SIGTERM"


def test_two_runs_at_once_share_the_work(bench):
    file = bench.plan(*[["ok"]] * 4, on_loss="keep")
    drivers = [drive(bench, file), drive(bench, file)]
    assert [driver.wait(PATIENCE_S) for driver in drivers] == [0, 0]
    assert said(bench.rows(file)) == [(number, "ok") for number in range(4)]


def test_a_killed_child_is_the_failure_of_its_trial_and_of_no_other(bench, tmp_path):
    file = bench.plan(["ok", f"wait:{tmp_path / 'never'}", "ok"])
    driver = drive(bench, file)
    wait_until((tmp_path / "never.arrived").exists, "the second trial")
    (child,) = processes_in(bench.folder)
    os.kill(child, signal.SIGKILL)
    assert driver.wait(PATIENCE_S) == 0
    rows = bench.rows(file)
    assert said(rows) == [(0, "ok"), (1, "failed"), (2, "ok")]
    assert "SIGKILL" in rows[1].reason
