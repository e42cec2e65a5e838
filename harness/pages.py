"""A page of several plans: what was measured of each row under each timing, beside upstream and simulated figures."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness import arms, reports, tables, upstream
from harness import plan as plans
from harness.comparison import Comparison, Findings, findings
from harness.screen_config import Row
from harness.plan import Plan, PlanFile
from harness.records import Reading, Record, read, record_files
from harness.tables import ABSENT, COLUMN_OF_BACKEND, markdown, percent, row_label
from harness.upstream import Place
from harness.workspace import Workspace

LEAD = (
    "Round trips, dispatch plus combine, in us: of a fresh process the maximum over Attention ranks of the medians "
    "over replays, then the median over pairs, with the lowest and the highest pair, and the paired change against the "
    "first arm. Every process proved its exchanges bit for bit before it timed them. Each column holds one kind of "
    "figure: measured here, published by others, or simulated."
)

Figures = dict[tuple[str, Place], tuple[float, ...]]


@dataclass(frozen=True)
class Part:
    """One plan of the page with what its records say."""

    file: PlanFile
    reading: Reading
    found: Findings

    @classmethod
    def of(cls, file: PlanFile, reading: Reading) -> "Part":
        return cls(file, reading, findings(file.plan, reading.records))

    @property
    def plan(self) -> Plan:
        return self.file.plan


def parts_of(workspace: Workspace) -> list[Part]:
    """Every plan of a folder with its records, oldest first.

    Raises:
        ReportError: there is none.
    """
    files = sorted(map(plans.load, workspace.plan_files()), key=lambda one: (one.created, one.plan_hash))
    return [Part.of(one, read(record_files(workspace.records(one.plan_hash)))) for one in files]


def in_order(parts: Sequence[Part]) -> list[Part]:
    """The plans for GPUs as the page shows them: graph replays first, as upstream was timed first; plans that timed
    alike stand together.
    """

    def place(part: Part) -> tuple[bool, bool, int, str]:
        exchange, device = part.plan.exchange, part.plan.backend.device
        assert device is not None
        return exchange.mode != "graph", device.rendezvous != "host", exchange.transport_sms, _heading(part)

    return sorted((part for part in parts if part.plan.backend.device is not None), key=place)


def text(parts: Sequence[Part], others: Figures, picture: str | None = None) -> str:
    """The page in Markdown.

    Args:
        parts: its plans, in order; the tables are those of plans for GPUs.
        others: round trips of upstream code.
        picture: file name of its plot, or None.
    """
    simulated = [part for part in parts if part.plan.backend.device is None]
    sections = [f"![Round trip against tokens]({picture})"] if picture else []
    for heading, group in itertools.groupby(in_order(parts), key=_heading):
        sections.append(f"## {heading}")
        sections += [_table(part, row, simulated, others) for part in group for row in range(len(part.plan.rows))]
    return "\n\n".join(["# Measured round trips", LEAD, *sections, *_ends(parts)]) + "\n"


def _heading(part: Part) -> str:
    """How a plan timed, in words; plans that timed alike stand together."""
    plan = part.plan
    device = plan.backend.device
    assert device is not None
    replay = f"{plan.backend.num_exchanges} exchanges each"
    if device.least_replay_us:
        replay = f"at least {device.least_replay_us:,} us each"
    start = {"host": "each behind a barrier of all ranks", "device": "free-running"}[device.rendezvous]
    kind = {"graph": "graph replays", "eager": "calls by the host in batches"}[plan.exchange.mode]
    most = plan.backend.ranks_per_gpu
    share = "" if most == 1 else f", at most {most} ranks a GPU, co-located"
    return f"{plan.exchange.transport_sms} transport SMs, {kind} of {replay}, {start}{share}"


def _table(part: Part, row_index: int, simulated: Sequence[Part], others: Figures) -> str:
    plan, row = part.plan, part.plan.rows[row_index]
    columns: list[tuple[str, list[str]]] = []
    shared = ", co-located" if plan.backend.ranks_per_gpu > 1 else ""
    for index, arm in enumerate(plan.arms):
        columns.append((f"`{arm.name}`{_label(arm.name)} measured{shared}", _measured(part, row_index, index)))
        if plan.exchange.mode == "eager":
            columns.append((f"`{arm.name}` host us, API calls", _host(part, row_index, index)))
        if plan.exchange.mode == "graph" and not shared:
            columns += _beside(plan, row, arm.name, simulated, others)
    shown = [(name, cells) for name, cells in columns if any(cell != ABSENT for cell in cells)]
    lines = [[f"{cell.tokens:,}", *(cells[number] for _, cells in shown)] for number, cell in enumerate(plan.cells)]
    body = markdown(["T", *(name for name, _ in shown)], lines, frozenset(range(len(shown) + 1)))
    return f"### {row_label(row)}\n\n{body}"


def _label(arm: str) -> str:
    return " (bare rows)" if arms.is_external(arm) and arm == "nccl" else ""


def _measured(part: Part, row: int, arm: int) -> list[str]:
    return [_figure(part.found, row, cell.tokens, arm) for cell in part.plan.cells]


def _figure(found: Findings, row: int, tokens: int, arm: int) -> str:
    """Median over pairs (lowest to highest; change against the baseline)."""
    figures = found.repeats_us(row, tokens, arm)
    if not figures:
        return ABSENT
    compared: Comparison | None = found.comparisons.get((row, tokens, arm))
    change = f"; {percent(compared.change_pct)}" if compared else ""
    return f"{median(figures):.1f} ({min(figures):.1f}\u2013{max(figures):.1f}{change})"


def _host(part: Part, row: int, arm: int) -> list[str]:
    """What an exchange costs an Attention rank's host, until it is enqueued."""
    cells = []
    for cell in part.plan.cells:
        own = [one for one in part.reading.records if _is_source(one, row, arm, cell.tokens)]
        us = [one.host_us for one in own if one.host_us is not None]
        calls = [one.host_calls for one in own if one.host_calls is not None]
        cells.append(f"{median(us):.1f}, {median(calls):.1f}" if us and calls else ABSENT)
    return cells


def _is_source(record: Record, row: int, arm: int, tokens: int) -> bool:
    place = (record.row, record.arm_index, record.tokens)
    return record.status == "ok" and record.role == "attention" and place == (row, arm, tokens)


def _beside(plan: Plan, row: Row, arm: str, simulated: Sequence[Part], others: Figures) -> list[tuple[str, list[str]]]:
    """The columns of other kinds that stand beside an arm's measured one."""
    name = upstream.ARM if arm == "m2n" else arm
    places = [upstream.place(row, cell.tokens, plan.exchange.transport_sms) for cell in plan.cells]
    published = [", ".join(f"{figure:.1f}" for figure in others.get((name, one), ())) or ABSENT for one in places]
    cells = [_simulated(plan, row, arm, cell.tokens, simulated) for cell in plan.cells]
    title = f"{name} published" if name == arm else "upstream as M2N, published"
    return [(title, published), (f"`{arm}` {COLUMN_OF_BACKEND['sim']}", cells)]


def _simulated(plan: Plan, row: Row, arm: str, tokens: int, simulated: Sequence[Part]) -> str:
    for part in simulated:
        other = part.plan
        names = [one.name for one in other.arms]
        alike = (other.backend.machine, other.exchange.transport_sms) == (
            plan.backend.machine,
            plan.exchange.transport_sms,
        )
        if alike and row in other.rows and arm in names:
            figures = part.found.repeats_us(other.rows.index(row), tokens, names.index(arm))
            if figures:
                return f"{median(figures):.1f}"
    return ABSENT


def _ends(parts: Sequence[Part]) -> list[str]:
    """Voids and provenance of every plan."""
    ends = ["## Void, failed or missing"]
    for part in parts:
        damaged = [f"- quarantined: {one.name}: {one.reason}" for one in part.reading.quarantined]
        listed = tables.absence_list(part.found.absences)
        ends += [f"Plan {part.file.plan_hash}:", "\n".join([listed, *damaged])]
    ends.append("## Provenance")
    return [*ends, *(_provenance(part) for part in parts), _PUBLISHED]


_PUBLISHED = "- published: records/upstream, whose README says what ran and how"


def _provenance(part: Part) -> str:
    lines = reports.provenance(part.file, part.found)
    libraries = sorted({str(one.loaded_digest) for one in part.reading.records if arms.is_external(one.arm)} - {"None"})
    facts = [json.loads(one.observed) for one in part.reading.records if one.observed]
    devices = sorted({f"{fact['gpus']} x {fact['device']}" for fact in facts})
    if devices:
        lines.append(f"- ran on {', '.join(devices)}; {part.plan.backend.placement}")
    if libraries:
        lines.append(f"- external: {'; '.join(libraries)}")
    return "\n".join(lines)
