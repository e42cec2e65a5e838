"""The page of the tests that need GPUs, by case from the field, from records alone."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness.errors import Exit
from harness.records.envelope import FAILED
from harness.report import page
from harness.report.markdown import ABSENT, bullets, table
from harness.report.results import Results, attempts
from harness.studies.device_tests.program import PASSED, DeviceTest

CASES = Path(__file__).resolve().parents[3] / "docs" / "field-cases.md"

_NAMED = re.compile(r"(tests/\S+\.py::test_\w+)")
_LEAD = (
    "Outcome of `pytest tests/device` on GPUs. A test with parameters counts once for each of them. The first table "
    "holds the tests that [the cases from the field](../../docs/field-cases.md) name, the second all others."
)


def named(path: Path = CASES) -> list[tuple[str, str, str]]:
    """The tests on GPUs of the page of cases: case, what it shows, and the test's id without parameters.

    An empty cell stands for the one above it.
    """
    found, case, behaviour = [], "", ""
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4 or not (test := _NAMED.fullmatch(cells[3])):
            continue
        case, behaviour = cells[0] or case, cells[1] or behaviour
        if cells[2] == "GPU":
            found.append((case, behaviour, test[1]))
    return found


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The page in Markdown, provenance last."""
    rows, wanted = _rows(results), named()
    cases = [[case, behaviour, f"`{function}`", _outcome(function, rows)] for case, behaviour, function in wanted]
    others = dict.fromkeys(
        _function(one) for one in rows if _function(one) not in {function for *_, function in wanted}
    )
    bad = [f"{one.outcome or one.status}: `{one.test}`: {one.reason}" for one in rows if one.outcome != PASSED]
    machines = dict.fromkeys(f"{one.gpus} x {one.machine}; {one.created}" for one in rows)
    seconds = f"{len(rows)} tests in {sum(one.test_s for one in rows):.0f} s"
    parts = [
        _LEAD,
        "## Cases from the field",
        table(["case", "behaviour", "test", "outcome"], cases),
        "## Other tests",
        table(["test", "outcome"], [[f"`{one}`", _outcome(one, rows)] for one in others]),
        "## Not passed",
        bullets([*bad, *page.damaged(results)]),
        "## Provenance",
        page.provenance(results, [*machines, seconds]),
    ]
    return page.assemble("Tests on GPUs", parts)


def summary(results: Results) -> str:
    """What a command prints at its end."""
    rows = _rows(results)
    passed = sum(one.outcome == PASSED for one in rows)
    bad = [f"not passed: {one}" for one in not_passed(rows, named())]
    return "\n".join([f"{passed} of {len(rows)} tests passed", *bad, page.not_ok(results)])


def status(results: Results) -> Exit:
    """Found where a test has failed; nothing where one that the cases name has not passed."""
    rows = _rows(results)
    if any(one.status == FAILED for one in rows):
        return Exit.FOUND
    return Exit.NOTHING if not_passed(rows, named()) else Exit.OK


def _rows(results: Results) -> list[DeviceTest]:
    return [one for rows in attempts(results.of(DeviceTest)) for one in rows]


def not_passed(rows: Sequence[DeviceTest], wanted: Sequence[tuple[str, str, str]]) -> list[str]:
    """Tests that are wanted and are not there, or of which one parameter did not pass."""
    outcomes: dict[str, set[str]] = {}
    for one in rows:
        outcomes.setdefault(_function(one), set()).add(one.outcome)
    return sorted({function for *_, function in wanted if outcomes.get(function) != {PASSED}})


def _function(one: DeviceTest) -> str:
    return one.test.partition("[")[0]


def _outcome(function: str, rows: Sequence[DeviceTest]) -> str:
    counts = Counter(one.outcome for one in rows if _function(one) == function)
    return ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items())) or ABSENT
