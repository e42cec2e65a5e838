"""The tests that need GPUs: pytest on `tests/device` in the slot, and a row for each test."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

from harness.core.fields import Limit
from harness.core.plan import Plan
from harness.machine import gpus
from harness.records.envelope import FAILED, OK, VOID, Envelope
from harness.study import Batch, Block, Ended, Said, VoidError

GROUP = "harness.ranks.group"
EXPORTED = ("tests/device", "tests/conftest.py", "README.md", "examples")
"""What its slots hold beside the usual."""

PASSED = "passed"
STATUS = {PASSED: OK, "skipped": VOID}
"""By the outcome of a test; of any other it is failed."""

_OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}
"""By the element that JUnit's XML has in a case that did not pass."""
_INTERRUPTED = 124
"""Exit status of `timeout`, where the time was over."""
_TO_END_S = 30.0
"""How long pytest may take to write what it knows, once it is interrupted."""


@dataclass(frozen=True)
class Settings:
    """What is run.

    Args:
        limit_s: of all tests; pytest is interrupted then, and what has ended counts.
    """

    limit_s: Limit


@dataclass(frozen=True)
class Trial:
    """All tests of a folder."""

    folder: str = "tests/device"


@dataclass(frozen=True, kw_only=True)
class Record(Envelope):
    """One test.

    Args:
        gpus: how many there were.
        test: its id, parameters included, as tests/device/test_lost.py::test_it[killed]; empty where none ran.
        outcome: passed, failed, error (outside the test itself), interrupted or skipped.
        test_s: that it took; a fixture counts with the first test that needs it.
        said: the first line of why it did not pass, or null.
    """

    table: ClassVar[str] = "device_tests"

    gpus: int = 0
    test: str = ""
    outcome: str = ""
    test_s: float = 0.0
    said: str | None = None


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """One process that runs them all."""
    limit_s = settings.limit_s + 2 * _TO_END_S
    return () if done else [Block((Batch((Trial(),), "cuda", limit_s=limit_s, expected_s=settings.limit_s / 2),))]


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Run pytest and say what came of each test; where it takes too long, it is interrupted.

    Raises:
        VoidError: no GPU, or no test that ran.
    """
    found, limit_s = gpus.found(), group.settings.limit_s
    if isinstance(found, str):
        raise VoidError(found)
    group.session.opened(device=found.name)
    group.turn()
    slot, junit = group.session.slot, group.folder / "junit.xml"
    command = [
        *("timeout", "--foreground", "-s", "INT", "-k", f"{_TO_END_S:g}", f"{limit_s:g}"),
        *(sys.executable, "-m", "pytest", batch.trials[0].folder, f"--rootdir={slot}", "--import-mode=importlib"),
        *("-p", "no:cacheprovider", f"--junitxml={junit}"),
    ]
    done = subprocess.run(command, cwd=slot, stdout=sys.stderr, check=False)
    if not (tests := outcomes(junit)):
        raise VoidError(f"expected tests that ran, received none: pytest ended with exit code {done.returncode}")
    if done.returncode == _INTERRUPTED:  # pytest writes of the test that it was at as if it had passed
        tests[-1] |= {"outcome": "interrupted", "said": "interrupted: the time for all tests was over"}
    yield Said(0, {"tests": tests, "gpus": found.count})


def outcomes(junit: Path) -> list[dict[str, Any]]:
    """What a file of JUnit's XML says of each test; none where there is no such file."""
    cases = [_outcome(case) for case in ElementTree.parse(junit).iter("testcase")] if junit.exists() else []
    bad = {one["test"]: one for one in reversed(cases) if one["outcome"] != PASSED}
    return list({one["test"]: bad.get(one["test"], one) for one in cases}.values())  # one may have a second, of its end


def _outcome(case: ElementTree.Element) -> dict[str, Any]:
    module, name = case.get("classname", ""), case.get("name", "")
    bad = [
        (_OUTCOMES[element.tag], next(iter(element.get("message", "").strip().splitlines()), "no message"))
        for element in case
        if element.tag in _OUTCOMES
    ]
    outcome, said = (*bad, (PASSED, None))[0]
    return {
        "test": f"{module.replace('.', '/')}.py::{name}" if module else name,  # one that was not collected has no class
        "outcome": outcome,
        "test_s": float(case.get("time", "0")),
        "said": said,
    }


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """A row for each test, or one where none ran."""
    told = ended.said.get(0, {})
    if "tests" not in told:
        return [Record(status=ended.status, reason=ended.reason)]
    return [
        Record(**one, gpus=told["gpus"], status=STATUS.get(one["outcome"], FAILED), reason=one["said"])
        for one in told["tests"]
    ]
