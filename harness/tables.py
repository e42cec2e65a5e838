"""Tables in Markdown, from findings and published figures. A column holds one kind of figure and says which."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.comparison import Absence, Comparison, Findings
from harness.screen_config import Row
from harness.plan import Plan
from harness.published import Point, PublishedCell, PublishedTable
from harness.statistics import median_and_worst, rms_relative_error_pct

MINUS, ABSENT = "\u2212", "\u2014"
COLUMNS = ("simulated", "published", "measured")
COLUMN_OF_BACKEND = {"sim": "simulated", "cuda": "measured"}


@dataclass(frozen=True)
class Beside:
    """A plan's findings for one candidate arm, with the published table that may stand beside them.

    Args:
        plan: the plan.
        findings: what its records say.
        arm: index of the candidate arm.
        published: the published table, or None if it measured other arms.
    """

    plan: Plan
    findings: Findings
    arm: int
    published: PublishedTable | None

    @property
    def baseline_name(self) -> str:
        return self.plan.arms[0].name

    @property
    def candidate_name(self) -> str:
        return self.plan.arms[self.arm].name

    def own(self, row_index: int, tokens: int) -> Comparison | None:
        return self.findings.comparisons.get((row_index, tokens, self.arm))

    def other(self, row: Row, tokens: int) -> PublishedCell | None:
        point = Point(row.layout, row.hidden, row.dtype, row.routing, tokens)
        return self.published.cells.get(point) if self.published else None


def percent(value: float) -> str:
    """A signed percentage with one decimal; its minus is U+2212, as printed in the published record."""
    return f"{_signed(value)}%"


def _signed(value: float) -> str:
    text = f"{abs(value):.1f}"
    if float(text) == 0:
        return text
    return f"{MINUS}{text}" if value < 0 else f"+{text}"


def figure(cell: Comparison | PublishedCell | None) -> str:
    """A cell as the published record prints it: candidate us (baseline us, paired change), or a dash."""
    if cell is None:
        return ABSENT
    return f"{cell.candidate_us:.1f} ({cell.baseline_us:.1f}, {percent(cell.change_pct)})"


def row_label(row: Row) -> str:
    """The row as the published record names it: `2A2F, 2,048, random`; FP8 is named, BF16 is not."""
    dtype = "" if row.dtype == "bf16" else f" {row.dtype.upper()}"
    return f"{row.layout}{dtype}, {row.hidden:,}, {row.routing}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """A Markdown table with padded columns, so that it reads in a terminal too; columns in `right` align right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[index]) for row in cells)) for index in range(len(header))]
    rule = [f"{'-' * (width - 1)}{':' if index in right else '-'}" for index, width in enumerate(widths)]
    return "\n".join(_line(row, widths, right) for row in (cells[0], rule, *cells[1:]))


def _line(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = [
        text.rjust(width) if index in right else text.ljust(width)
        for index, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def result_table(beside: Beside) -> str:
    """One line per cell, with the simulated, published and measured figure each in its own column."""
    own_column = COLUMN_OF_BACKEND[beside.plan.backend.name]
    lines = []
    for index, row in enumerate(beside.plan.rows):
        for cell in beside.plan.cells:
            figures = dict.fromkeys(COLUMNS, ABSENT)
            figures[own_column] = figure(beside.own(index, cell.tokens))
            figures["published"] = figure(beside.other(row, cell.tokens))
            label = row_label(row) if cell is beside.plan.cells[0] else ""
            lines.append([label, f"{cell.tokens:,}", *(figures[column] for column in COLUMNS)])
    return markdown(["layout, hidden, routing", "T", *(f"{column}, us" for column in COLUMNS)], lines, frozenset({1}))


def fit_table(beside: Beside) -> str:
    """Per row: how far our absolutes and paired changes are from the published ones; a dash where nothing is shared."""
    lines = [_fit_line(beside, index, row) for index, row in enumerate(beside.plan.rows)]
    header = [
        "layout, hidden, routing",
        f"rms error of {beside.baseline_name}, %",
        f"rms error of {beside.candidate_name}, %",
        "difference of changes: median, points",
        "worst, points",
        "cells",
    ]
    return markdown(header, lines, frozenset(range(1, 6)))


def _fit_line(beside: Beside, index: int, row: Row) -> list[str]:
    shared = [
        (own, other)
        for cell in beside.plan.cells
        if (own := beside.own(index, cell.tokens)) and (other := beside.other(row, cell.tokens))
    ]
    if not shared:
        return [row_label(row), *[ABSENT] * 4, "0"]
    middle, worst = median_and_worst([own.change_pct - other.change_pct for own, other in shared])
    return [
        row_label(row),
        f"{rms_relative_error_pct([own.baseline_us for own, _ in shared], [o.baseline_us for _, o in shared]):.1f}",
        f"{rms_relative_error_pct([own.candidate_us for own, _ in shared], [o.candidate_us for _, o in shared]):.1f}",
        _signed(middle),
        _signed(worst),
        str(len(shared)),
    ]


def absence_list(absences: Sequence[Absence]) -> str:
    """Void, failed and missing cells, those of one process and reason together; a single line if there are none."""
    grouped: dict[tuple[str, str, str, int, str], list[int]] = {}
    for one in absences:
        grouped.setdefault((one.status, row_label(one.row), one.arm, one.pair, one.reason), []).append(one.tokens)
    lines = [
        f"- {status}: {label}, {arm}, pair {pair + 1}, T = {', '.join(map(str, tokens))}: {reason}"
        for (status, label, arm, pair, reason), tokens in grouped.items()
    ]
    return "\n".join(lines) or "Void, failed or missing cells: none."
