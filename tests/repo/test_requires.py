"""The `requires` marker skips visibly, fails where it is insisted on, and refuses names it does not know."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest import MonkeyPatch, Pytester

ROOT = Path(__file__).parents[2]
CONFTEST = (Path(__file__).parents[1] / "conftest.py").read_text()
ABSENT = CONFTEST.replace('find_spec("torch") is not None', 'find_spec("torch_is_absent") is not None')
PRESENT = CONFTEST.replace('find_spec("torch") is not None', 'find_spec("pytest") is not None')
CASE = "import pytest\n@pytest.mark.requires('{name}')\ndef test_it(): pass\n"
MARKER = "[pytest]\nmarkers = requires(*names): needs\n"


def outcome_of(pytester: Pytester, conftest: str, name: str = "torch") -> pytest.RunResult:
    pytester.makeconftest(conftest)
    pytester.makefile(".ini", pytest=MARKER)
    pytester.makepyfile(CASE.format(name=name))
    return pytester.runpytest_subprocess("-rs", "-p", "no:cacheprovider")


def test_a_missing_need_is_skipped_with_its_reason(pytester: Pytester, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.delenv("TESTS_REQUIRE", raising=False)
    result = outcome_of(pytester, ABSENT)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs torch, which this run lacks*"])


def test_a_missing_need_that_is_insisted_on_fails(pytester: Pytester, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_REQUIRE", "torch nvcc")
    result = outcome_of(pytester, ABSENT)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*torch is missing, and TESTS_REQUIRE insists on it*"])


def test_insisting_on_another_need_still_skips(pytester: Pytester, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_REQUIRE", "nvcc")
    outcome_of(pytester, ABSENT).assert_outcomes(skipped=1)


def test_a_need_that_is_met_runs_the_test(pytester: Pytester, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_REQUIRE", "torch")
    outcome_of(pytester, PRESENT).assert_outcomes(passed=1)


def test_an_unknown_need_is_an_error_that_lists_the_names(pytester: Pytester, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.delenv("TESTS_REQUIRE", raising=False)
    result = outcome_of(pytester, ABSENT, name="tourch")
    result.stdout.fnmatch_lines(["*names 'tourch'*", "*the names are torch, nvcc, hydra, one-worker, gpus:COUNT*"])
    assert result.ret != 0


def test_an_unknown_name_in_the_environment_is_refused(pytester: Pytester, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_REQUIRE", "tourch")
    result = outcome_of(pytester, ABSENT)
    result.stderr.fnmatch_lines(["*TESTS_REQUIRE names 'tourch'*"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def with_gpus(count: int) -> str:
    return CONFTEST.replace("COUNTED[kind]()", str(count))


@pytest.mark.parametrize(("gpus", "runs"), [(0, False), (1, False), (2, True), (8, True)])
def test_a_test_on_two_gpus_runs_where_there_are_so_many(
    pytester: Pytester, monkeypatch: MonkeyPatch, gpus: int, runs: bool
) -> None:
    monkeypatch.delenv("TESTS_REQUIRE", raising=False)
    result = outcome_of(pytester, with_gpus(gpus), name="gpus:2")
    result.assert_outcomes(passed=runs, skipped=not runs)
    if not runs:
        result.stdout.fnmatch_lines(["*needs gpus:2, which this run lacks*"])


@pytest.mark.parametrize("name", ["gpus", "gpus:", "gpus:two", "torch:2"])
def test_a_count_that_is_missing_or_has_no_meaning_is_refused(
    pytester: Pytester, monkeypatch: MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TESTS_REQUIRE", name)
    assert outcome_of(pytester, CONFTEST).ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(("workers", "runs"), [(None, True), ("1", True), ("4", False)])
def test_a_test_that_needs_the_machine_to_itself_is_skipped_beside_other_workers(
    pytester: Pytester, monkeypatch: MonkeyPatch, workers: str | None, runs: bool
) -> None:
    monkeypatch.delenv("TESTS_REQUIRE", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    if workers is not None:
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", workers)
    outcome_of(pytester, CONFTEST, name="one-worker").assert_outcomes(passed=runs, skipped=not runs)


def test_the_altered_conftests_differ_from_the_real_one() -> None:
    assert len({CONFTEST, ABSENT, PRESENT, with_gpus(2)}) == 4


def test_every_test_is_collected_where_torch_is_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text('raise ModuleNotFoundError("No module named torch", name="torch")\n')
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-n", "0", "tests"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TESTS_REQUIRE": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert "could not import 'torch'" in done.stdout
    assert done.returncode == 0, done.stdout
