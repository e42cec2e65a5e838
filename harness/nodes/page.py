"""The page of a node's screens: `python -m harness.nodes.page FOLDER PAGE`, from kept records and published figures."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness import arms, pages, published, reports, tables
from harness.screen_config import Row
from harness.leaving import leave
from harness.pages import Part
from harness.published import BASELINE, CANDIDATE, Point, PublishedTable
from harness.tables import ABSENT, markdown, percent, row_label
from harness.workspace import Workspace, write_page

H200_TABLE, H200_MACHINE = "s15-noload", "4xH200"
"""The published table with round trips of four H200s; its candidate is a later tree than that of the main table."""

_LEAD = (
    "Round trips, dispatch plus combine, in us: of a fresh process the maximum over Attention ranks of the medians "
    "over replays, then the median over pairs, with the lowest and the highest pair. A change is the geometric mean of "
    "paired changes against the first arm, with how many pairs have its sign. Every process proved its exchanges bit "
    "for bit before it timed them. Each column holds one kind of figure: measured here, or published by others, of the "
    "machines that the column names."
)
_BARE = "`nccl` moves the bare rows: it counts, expands and reduces nothing."

Columns = list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Others:
    """What was published of the rows of a page.

    Args:
        table: the result table that the plan names, or None.
        baseline_us, candidate_us: round trips of H200s by place.
    """

    table: PublishedTable | None
    baseline_us: dict[Point, float]
    candidate_us: dict[Point, float]


def main(words: Sequence[str]) -> int:
    """Write the page of a folder of kept plans and records."""
    write_page(Path(words[1]), text(pages.parts_of(Workspace(Path(words[0]).resolve()))))
    return 0


def text(parts: Sequence[Part]) -> str:
    """The page in Markdown, provenance last."""
    sections = [f"# Measured on {_machine(parts)}, one rank a GPU", _LEAD]
    if any(arm.name == "nccl" for part in parts for arm in part.plan.arms):
        sections.append(_BARE)
    for part in parts:
        sections.append(f"## {_timing(part)}")
        sections += [_table(part, index, row, _others(part)) for index, row in enumerate(part.plan.rows)]
    return "\n\n".join([*sections, *_ends(parts)]) + "\n"


def _machine(parts: Sequence[Part]) -> str:
    """The GPUs that ranks saw, in words: they may have been several machines of a kind."""
    found = [json.loads(one.observed) for part in parts for one in part.reading.records if one.observed]
    return ", ".join(sorted({f"{one['gpus']} x {one['device']}" for one in found})) or "no machine"


def _timing(part: Part) -> str:
    plan, device = part.plan, part.plan.backend.device
    assert device is not None
    sms = f"{plan.exchange.transport_sms} transport SMs"
    if device.rendezvous == "host":
        return f"{sms}, replays of {plan.backend.num_exchanges} exchanges, each behind a barrier of all ranks"
    return f"{sms}, free-running replays of at least {device.least_replay_us:,} us"


def _others(part: Part) -> Others:
    """Published figures are of exchanges behind a barrier, so they stand beside such plans alone."""
    if part.plan.published is None:
        return Others(None, {}, {})
    h200 = (published.absolutes(H200_TABLE, arm, H200_MACHINE) for arm in (BASELINE, CANDIDATE))
    return Others(published.load(part.plan.published), *h200)


def _table(part: Part, index: int, row: Row, others: Others) -> str:
    columns: Columns = []
    for arm, planned in enumerate(part.plan.arms):
        figures = [_us(part, index, arm, one.tokens) for one in part.plan.cells]
        columns.append((f"`{planned.name}` measured, us", figures))
        if arm:
            changes = [_change(part, index, arm, one.tokens) for one in part.plan.cells]
            columns.append((f"`{planned.name}` change, measured", changes))
    columns += _published(part, row, others)
    shown = [(name, cells) for name, cells in columns if any(cell != ABSENT for cell in cells)]
    lines = [[f"{cell.tokens:,}", *(cells[at] for _, cells in shown)] for at, cell in enumerate(part.plan.cells)]
    body = markdown(["T", *(name for name, _ in shown)], lines, frozenset(range(len(shown) + 1)))
    return f"### {row_label(row)}\n\n{body}"


def _us(part: Part, row: int, arm: int, tokens: int) -> str:
    figures = part.found.repeats_us(row, tokens, arm)
    return f"{median(figures):.1f} ({min(figures):.1f}\u2013{max(figures):.1f})" if figures else ABSENT


def _change(part: Part, row: int, arm: int, tokens: int) -> str:
    compared = part.found.comparisons.get((row, tokens, arm))
    if compared is None:
        return ABSENT
    return f"{percent(compared.change_pct)} ({compared.num_agreeing}/{len(compared.pairs)})"


def _published(part: Part, row: Row, others: Others) -> Columns:
    """Both arms and the change of the result table, and the round trips of H200s."""
    points = [Point(row.layout, row.hidden, row.dtype, row.routing, cell.tokens) for cell in part.plan.cells]
    columns: Columns = []
    if others.table is not None:
        found = [others.table.cells.get(point) for point in points]
        where, arm = f"published, {others.table.nodes_gpus}", f"`afdep@{others.table.native_digest}`"
        columns += [
            (f"`m2n` {where}, us", [f"{one.baseline_us:.1f}" if one else ABSENT for one in found]),
            (f"{arm} {where}, us", [f"{one.candidate_us:.1f}" if one else ABSENT for one in found]),
            (f"{arm} change, {where}", [percent(one.change_pct) if one else ABSENT for one in found]),
        ]
    for name, figures in (("m2n", others.baseline_us), ("afdep", others.candidate_us)):
        cells = [f"{figures[point]:.1f}" if point in figures else ABSENT for point in points]
        columns.append((f"`{name}` published, {H200_MACHINE}, us", cells))
    return columns


def _ends(parts: Sequence[Part]) -> list[str]:
    """Voids and provenance of every plan."""
    ends = ["## Void, failed or missing"]
    for part in parts:
        damaged = [f"- quarantined: {one.name}: {one.reason}" for one in part.reading.quarantined]
        ends += [
            f"Plan {part.file.plan_hash}:",
            "\n".join([tables.absence_list(part.found.absences), *damaged]),
        ]
    return [*ends, "## Provenance", *(_provenance(part) for part in parts)]


def _provenance(part: Part) -> str:
    lines = [*reports.provenance(part.file, part.found), f"- ran on {_machine([part])}; {part.plan.backend.placement}"]
    external = [one.loaded_digest for one in part.reading.records if arms.is_external(one.arm)]
    libraries = sorted({one for one in external if one is not None})
    if libraries:
        lines.append(f"- external: {'; '.join(libraries)}")
    if part.plan.published is not None:
        lines.append(
            f"- published: tables {part.plan.published} and {H200_TABLE} of records/published; `afdep` of the second "
            "is the published tree of its time, not this one"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
