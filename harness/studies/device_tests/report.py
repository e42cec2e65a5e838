"""The page of the tests that need GPUs, by case from the field, from records alone."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness.errors import Exit
from harness.report import page
from harness.report.markdown import ABSENT, bullets, table
from harness.report.results import Results, verdict
from harness.studies.device_tests.program import PASSED, Record

CASES = Path(__file__).resolve().parents[3] / "docs" / "field-cases.md"

_NAMED = re.compile(r"^\|([^|]*)\|([^|]*)\|([^|]*)\| *(tests/\S+\.py::test_\w+) *\|$", re.MULTILINE)
"""A line of its tables: case, behaviour, where it is tested, and by what."""
_LEAD = (
    "Outcome of `pytest tests/device` on GPUs. A test with parameters counts once for each of them. The first table "
    "holds the tests that [the cases from the field](../../docs/field-cases.md) name, the second all others."
)


def named(path: Path = CASES) -> list[tuple[str, str, str]]:
    """The tests on GPUs of the page of cases: case, what it shows, and the test's id without parameters.

    An empty cell stands for the one above it.
    """
    found, case, behaviour = [], "", ""
    for first, second, where, test in _NAMED.findall(path.read_text(encoding="utf-8")):
        case, behaviour = first.strip() or case, second.strip() or behaviour
        if where.strip() == "GPU":
            found.append((case, behaviour, test))
    return found


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The page in Markdown, provenance last."""
    rows, wanted = results.current(Record), named()
    cases = [[case, behaviour, f"`{function}`", _outcome(function, rows)] for case, behaviour, function in wanted]
    others = dict.fromkeys(
        _function(one) for one in rows if _function(one) not in {function for *_, function in wanted}
    )
    bad = [f"{one.outcome or one.status}: `{one.test}`: {one.reason}" for one in rows if one.outcome != PASSED]
    machines = dict.fromkeys(f"{one.gpus} x {one.machine}; {one.created}" for one in rows)
    return page.assemble(
        "Tests on GPUs",
        [
            _LEAD,
            "## Cases from the field",
            table(["case", "behaviour", "test", "outcome"], cases),
            "## Other tests",
            table(["test", "outcome"], [[f"`{one}`", _outcome(one, rows)] for one in others]),
            "## Not passed",
            bullets([*bad, *page.damaged(results)]),
            "## Provenance",
            page.provenance(results, [*machines, f"{len(rows)} tests in {sum(one.test_s for one in rows):.0f} s"]),
        ],
    )


def summary(results: Results) -> str:
    """What a command prints at its end."""
    rows = results.current(Record)
    passed = f"{sum(one.outcome == PASSED for one in rows)} of {len(rows)} tests passed"
    return "\n".join([passed, *(f"not passed: {one}" for one in not_passed(rows, named())), page.not_ok(results)])


def status(results: Results) -> Exit:
    """Found where a test has failed; nothing where one that the cases name has not passed."""
    rows = results.current(Record)
    return verdict({one.status for one in rows}, bool(not_passed(rows, named())))


def not_passed(rows: Sequence[Record], wanted: Sequence[tuple[str, str, str]]) -> list[str]:
    """Tests that are wanted and are not there, or of which one parameter did not pass."""
    bad = {_function(one) for one in rows if one.outcome != PASSED}
    return sorted({function for *_, function in wanted} - ({_function(one) for one in rows} - bad))


def _function(one: Record) -> str:
    return one.test.partition("[")[0]


def _outcome(function: str, rows: Sequence[Record]) -> str:
    counts = Counter(one.outcome for one in rows if _function(one) == function)
    return ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items())) or ABSENT
