"""The page of the tests that need GPUs, by case from the field: `python -m harness.device_tests.page RECORD PAGE`.

A record that is not there gives the page that says so.
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.device_tests.keep import PASSED
from harness.records.device_tests import DeviceTestRecord, read_device_tests
from harness.tables import ABSENT, markdown
from harness.workspace import REPOSITORY, write_page

CASES = REPOSITORY / "docs" / "field-cases.md"
GPU = "GPU"

_NAMED = re.compile(r"(tests/\S+\.py::test_\w+)")
_LEAD = (
    "Outcome of `pytest tests/device` on GPUs. A test with parameters counts once for each of them. The first table "
    "holds the tests that [the cases from the field](../docs/field-cases.md) name, the second all others."
)
_NONE = "No run is kept: `bash slurm/h200-tests.sh` prepares one. Until then the page only says what a run will show."


@dataclass(frozen=True)
class Named:
    """A test on GPUs that the page of cases names.

    Args:
        case: its number, as K9.
        behaviour: what it shows.
        function: the test's id without parameters.
    """

    case: str
    behaviour: str
    function: str


def main(words: Sequence[str]) -> int:
    """Write the page of a record."""
    write_page(Path(words[1]), text(kept(Path(words[0])), named()))
    return 0


def kept(path: Path) -> tuple[DeviceTestRecord, ...]:
    """The tests of a record; none where it is not there."""
    return read_device_tests(path) if path.is_file() else ()


def named(path: Path = CASES) -> list[Named]:
    """The tests on GPUs of the page of cases, in its order; an empty cell stands for the one above it."""
    found, case, behaviour = [], "", ""
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4 or not (test := _NAMED.fullmatch(cells[3])):
            continue
        case, behaviour = cells[0] or case, cells[1] or behaviour
        if cells[2] == GPU:
            found.append(Named(case, behaviour, test.group(1)))
    return found


def not_passed(records: Sequence[DeviceTestRecord], wanted: Sequence[Named]) -> list[str]:
    """Tests that are wanted and are not there, or of which one parameter did not pass."""
    outcomes: dict[str, set[str]] = {}
    for one in records:
        outcomes.setdefault(one.function, set()).add(one.outcome)
    return sorted({one.function for one in wanted if outcomes.get(one.function) != {PASSED}})


def text(records: Sequence[DeviceTestRecord], wanted: Sequence[Named]) -> str:
    """The page in Markdown, provenance last."""
    rows = [[one.case, one.behaviour, f"`{one.function}`", _outcome(one.function, records)] for one in wanted]
    parts = ["# Tests on GPUs", _LEAD, *([] if records else [_NONE]), "## Cases from the field"]
    parts.append(markdown(["case", "behaviour", "test", "outcome"], rows))
    names = {one.function for one in wanted}
    others = dict.fromkeys(one.function for one in records if one.function not in names)
    if others:
        rows = [[f"`{one}`", _outcome(one, records)] for one in others]
        parts += ["## Other tests", markdown(["test", "outcome"], rows)]
    bad = [f"- {one.outcome}: `{one.test}`: {one.said}" for one in records if one.outcome != PASSED]
    if bad:
        parts += ["## Not passed", "\n".join(bad)]
    return "\n\n".join([*parts, "## Provenance", _provenance(records)]) + "\n"


def _outcome(function: str, records: Sequence[DeviceTestRecord]) -> str:
    counts = Counter(one.outcome for one in records if one.function == function)
    return ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items())) or ABSENT


def _provenance(records: Sequence[DeviceTestRecord]) -> str:
    if not records:
        return "- no record"
    first = records[0]
    lines = [
        f"- {first.gpus} x {first.machine}; {first.created}; {len(records)} tests in "
        f"{sum(one.seconds for one in records):.0f} s",
        f"- native digest {first.native_digest}; harness {first.harness_digest}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
