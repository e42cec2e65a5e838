"""A folder of tests that takes more CPU seconds than it has fails the session; those of children count."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.budget import over

BURNS = """
import subprocess
import sys

def test_of_a_child():
    subprocess.run([sys.executable, "-c", "sum(i * i for i in range(6_000_000))"], check=True)
"""


def outcome_of(pytester: pytest.Pytester, root: Path, most_s: float) -> pytest.RunResult:
    file = pytester.path / "budget.toml"
    file.write_text(f"[cpu_seconds]\nslow = {most_s}\n", encoding="utf-8")
    folder = pytester.path / "tests" / "slow"
    folder.mkdir(parents=True)
    (folder / "test_slow.py").write_text(BURNS, encoding="utf-8")
    pytester.makeini(f"[pytest]\npythonpath = {root}\n")
    return pytester.runpytest_subprocess("-p", "tests.budget", f"--budget={file}", "-p", "no:cacheprovider", folder)


def test_a_folder_within_its_budget_passes_and_its_dearest_tests_are_listed(pytester, root):
    result = outcome_of(pytester, root, 20.0)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.re_match_lines([r"=+ \d CPU seconds =+", r" +\d of   20  tests/slow", r" +\d\.\d  .*test_of_a_child"])


def test_a_child_that_takes_more_than_its_folder_has_fails_the_session(pytester, root):
    result = outcome_of(pytester, root, 0.01)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines([r"over budget: tests/slow: \d CPU-s of 0"])


def test_a_folder_may_take_a_tenth_more_and_one_without_a_budget_nothing():
    budget = {"core": 100.0}
    assert over(Counter(core=109.0), budget) == []
    assert over(Counter(core=111.0, new=1.0), budget) == ["tests/core: 111 CPU-s of 100", "tests/new: 1 CPU-s of 0"]


def test_every_folder_of_tests_has_a_budget(root):
    folders = {path.parent.relative_to(root / "tests").parts[0] for path in (root / "tests").rglob("test_*.py")}
    assert set(tomllib.loads((root / "tests" / "budget.toml").read_text("utf-8"))["cpu_seconds"]) == folders
