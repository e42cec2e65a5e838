"""Keeps what a run of the tests left: `python -m harness.device_tests.keep FOLDER RECORD`, from its two files there."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from harness.device_tests import facts
from harness.device_tests.facts import FACTS, JUNIT
from harness.errors import UsageError
from harness.records.device_tests import DeviceTestRecord, write_device_tests

PASSED = "passed"
_OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}
"""By the element that JUnit's XML has in a case that did not pass."""


def main(words: Sequence[str]) -> int:
    """Replace the record."""
    folder, path = Path(words[0]), Path(words[1])
    found = records(folder)
    path.unlink(missing_ok=True)
    write_device_tests(path, found)
    passed = sum(one.outcome == PASSED for one in found)
    print(f"{passed} of {len(found)} tests passed; written: {path}")
    return 0


def records(folder: Path) -> list[DeviceTestRecord]:
    """The records of a run.

    Raises:
        UsageError: the run left no test.
    """
    shared = dataclasses.asdict(facts.read(folder / FACTS))
    cases = ElementTree.parse(folder / JUNIT).iter("testcase")
    found: dict[str, DeviceTestRecord] = {}
    for case in cases:
        one = DeviceTestRecord(**shared, **_told(case))
        if found.setdefault(one.test, one).outcome == PASSED:
            found[one.test] = one  # a test that failed may have a second element, of its end
    if not found:
        raise UsageError(f"{folder.name}: expected tests in {JUNIT}, received none.", "Run ./tests on the node.")
    return list(found.values())


def _told(case: ElementTree.Element) -> dict[str, Any]:
    module, name = case.get("classname", ""), case.get("name", "")
    outcome, said = next(_bad(case), (PASSED, None))
    test = f"{module.replace('.', '/')}.py::{name}" if module else name  # a module that was not collected has no class
    return {"test": test, "outcome": outcome, "seconds": float(case.get("time", "0")), "said": said}


def _bad(case: ElementTree.Element) -> Iterator[tuple[str, str]]:
    for element in case:
        if element.tag in _OUTCOMES:
            yield _OUTCOMES[element.tag], (element.get("message", "").strip().splitlines() or [""])[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
