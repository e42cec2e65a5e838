"""Pages from records alone: the result table, the fit, what is void, and where it all comes from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness import published, tables
from harness.comparison import Findings, findings
from harness.errors import ReportError
from harness.plan import Plan, PlanFile
from harness.records import Quarantined
from harness.selection import Selection
from harness.tables import Beside

BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"


@dataclass(frozen=True)
class Page:
    """What a report says about one plan.

    Args:
        selection: the plan and its records.
        found: what the records say.
        besides: one entry per candidate arm.
    """

    selection: Selection
    found: Findings
    besides: tuple[Beside, ...]

    @property
    def plan(self) -> Plan:
        return self.selection.plan_file.plan


def page(selection: Selection) -> Page:
    """Put records and published figures beside each other.

    Raises:
        PublishedError: the plan names a published table that is not there.
    """
    plan = selection.plan_file.plan
    found = findings(plan, selection.reading.records)
    table = published.load(plan.published) if plan.published else None
    besides = []
    for arm in range(1, len(plan.arms)):
        fits = table is not None and table.stands_beside(plan.arms[0].name, plan.arms[arm].name)
        besides.append(Beside(plan, found, arm, table if fits else None))
    return Page(selection, found, tuple(besides))


def body(one: Page, images: Sequence[str] = ()) -> str:
    """The page in Markdown: per candidate arm its tables, then plots, voids and provenance."""
    parts = [part for beside in one.besides for part in _arm_parts(beside)]
    parts += images
    parts += [
        tables.absence_list(one.found.absences),
        _quarantined(one.selection.reading.quarantined),
        _provenance(one),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arm_parts(beside: Beside) -> list[str]:
    parts = [_caption(beside), tables.result_table(beside), _disagreeing(beside)]
    if beside.published is not None:
        parts += [_fit_caption(beside), tables.fit_table(beside)]
    return parts


def _caption(beside: Beside) -> str:
    return (
        "Round trip, dispatch plus combine, in us, the maximum over Attention ranks; T is tokens per Attention rank. "
        f"Each cell: {beside.candidate_name} ({beside.baseline_name}, paired change)."
    )


def _fit_caption(beside: Beside) -> str:
    column = tables.COLUMN_OF_BACKEND[beside.plan.backend.name]
    return f"How far the {column} figures are from the published ones ({column} minus published, over shared cells):"


def _disagreeing(beside: Beside) -> str:
    """Cells whose repeats do not all have the sign of their mean."""
    mixed = [
        f"{tables.row_label(one.row)}, T = {one.tokens}: {one.num_agreeing} of {len(one.pairs)}"
        for (_, _, arm), one in beside.findings.comparisons.items()
        if arm == beside.arm and one.num_agreeing < len(one.pairs) and len(one.pairs) > 1
    ]
    return f"Repeats that agree with their mean, where not all do: {'; '.join(mixed)}." if mixed else ""


def _quarantined(files: Sequence[Quarantined]) -> str:
    return "\n".join(f"- quarantined: {one.name}: {one.reason}" for one in files)


def _provenance(one: Page) -> str:
    lines = provenance(one.selection.plan_file, one.found)
    lines += [_published_line(beside) for beside in one.besides if beside.published is not None]
    return "\n".join(lines)


def provenance(file: PlanFile, found: Findings) -> list[str]:
    """Where the figures of a plan come from, as the lines of a list."""
    plan = file.plan
    trees = "; ".join(f"{tree.name} {tree.native_digest}" for tree in plan.trees)
    planned = len(plan.processes) * len(plan.cells)
    return [
        f"- command: `{file.command}`; plan {file.plan_hash}; {found.num_ok} of {planned} planned cells count",
        f"- tree and native digest: {trees}; backend {plan.backend.name}, machine {plan.backend.machine}; "
        f"harness {plan.harness_digest}; pairs per cell: {plan.backend.pairs}",
        f"- top-{plan.exchange.top_k}, capacity {plan.exchange.capacity:,}, experts {_experts(plan)}; "
        f"{plan.exchange.transport_sms} transport SMs, collect {plan.exchange.collect}, {plan.exchange.mode}",
    ]


def _experts(plan: Plan) -> str:
    return ", ".join(dict.fromkeys(f"{row.experts} in {row.layout}" for row in plan.rows))


def _published_line(beside: Beside) -> str:
    table = beside.published
    assert table is not None
    return (
        f"- published: table {table.table_id} of the published record, {table.nodes_gpus}, its digest "
        f"{table.native_digest}, {table.repeats} repeats, against the arm frozen at that digest"
    )


def replace_block(text: str, block: str) -> str:
    """The text with everything between the two table markers replaced.

    Raises:
        ReportError: not exactly one pair of markers.
    """
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ReportError(
            f"README.md: expected one {BEGIN} ... {END}, received another number.", "Restore the markers."
        )
    return pattern.sub(lambda _: f"{BEGIN}\n{block.strip()}\n{END}", text)


def header(file: PlanFile) -> str:
    """The title of a page of its own."""
    return f"# Screen {file.plan.screen}, plan {file.plan_hash}\n\n"
