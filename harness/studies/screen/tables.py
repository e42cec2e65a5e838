"""The tables of a screen's page. A column holds one kind of figure and says which."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from harness.core.identity import EXTERNAL
from harness.core.plan import Plan
from harness.ranks.cells import Row
from harness.ranks.exchanges import RoundTrip
from harness.records.envelope import OK
from harness.report import published
from harness.report.markdown import ABSENT, KIND_OF_BACKEND, percent, signed, table
from harness.report.published import UPSTREAM_ARM, Point, PublishedCell, PublishedTable
from harness.report.results import Part
from harness.report.statistics import median_and_worst, rms_relative_error_pct
from harness.studies.screen.findings import Comparison, Findings, findings

KINDS = ("simulated", "published", "measured")
Columns = list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Found:
    """One plan with what its records say."""

    part: Part

    @property
    def plan(self) -> Plan:
        return self.part.plan

    @property
    def settings(self) -> Any:
        return self.plan.settings

    @cached_property
    def records(self) -> tuple[RoundTrip, ...]:
        return self.part.of(RoundTrip)

    @cached_property
    def findings(self) -> Findings:
        return findings(self.plan, self.records)

    @cached_property
    def facts(self) -> list[dict[str, Any]]:
        """What ranks saw of themselves."""
        return [json.loads(one.observed) for one in self.records if one.observed]


@dataclass(frozen=True)
class Beside:
    """A plan's findings for one candidate arm, with the published table that may stand beside them.

    Args:
        found: what the plan's records say.
        arm: index of the candidate arm.
        published: the published table, or None if it measured other arms.
    """

    found: Found
    arm: int
    published: PublishedTable | None

    @property
    def baseline_name(self) -> str:
        return str(self.found.settings.arms[0].name)

    @property
    def candidate_name(self) -> str:
        return str(self.found.settings.arms[self.arm].name)

    def own(self, row_index: int, tokens: int) -> Comparison | None:
        return self.found.findings.comparisons.get((row_index, tokens, self.arm))

    def other(self, row: Row, tokens: int) -> PublishedCell | None:
        return self.published.cells.get(Point.of(row, tokens)) if self.published else None


def besides(found: Found) -> list[Beside]:
    """One for each candidate arm.

    Raises:
        PublishedError: the plan names a published table that is not there.
    """
    settings = found.settings
    beside = published.load(settings.published) if settings.published else None
    names = [arm.name for arm in settings.arms]
    return [
        Beside(found, arm, beside if beside is not None and beside.stands_beside(names[0], names[arm]) else None)
        for arm in range(1, len(names))
    ]


def figure(cell: Comparison | PublishedCell | None) -> str:
    """A cell as the published record prints it: candidate us (baseline us, paired change), or a dash."""
    if cell is None:
        return ABSENT
    return f"{cell.candidate_us:.1f} ({cell.baseline_us:.1f}, {percent(cell.change_pct)})"


def result_table(beside: Beside) -> str:
    """One line per cell, with the simulated, published and measured figure each in its own column."""
    settings = beside.found.settings
    own_column = KIND_OF_BACKEND[settings.backend.name]
    lines = []
    for (index, row), tokens in itertools.product(enumerate(settings.rows), settings.tokens):
        figures = dict.fromkeys(KINDS, ABSENT)
        figures[own_column] = figure(beside.own(index, tokens))
        figures["published"] = figure(beside.other(row, tokens))
        label = row.label if tokens == settings.tokens[0] else ""
        lines.append([label, f"{tokens:,}", *(figures[column] for column in KINDS)])
    return table(["layout, hidden, routing", "T", *(f"{column}, us" for column in KINDS)], lines, [1])


def fit_table(beside: Beside) -> str:
    """Per row: how far our absolutes and paired changes are from the published ones; a dash where nothing is shared."""
    lines = [_fit_line(beside, index, row) for index, row in enumerate(beside.found.settings.rows)]
    header = [
        "layout, hidden, routing",
        f"rms error of {beside.baseline_name}, %",
        f"rms error of {beside.candidate_name}, %",
        "difference of changes: median, points",
        "worst, points",
        "cells",
    ]
    return table(header, lines, range(1, 6))


def _fit_line(beside: Beside, index: int, row: Row) -> list[str]:
    cells = [(beside.own(index, tokens), beside.other(row, tokens)) for tokens in beside.found.settings.tokens]
    shared = [(own, other) for own, other in cells if own is not None and other is not None]
    if not shared:
        return [row.label, *[ABSENT] * 4, "0"]
    middle, worst = median_and_worst([own.change_pct - other.change_pct for own, other in shared])
    sides = ("baseline_us", "candidate_us")
    errors = (
        rms_relative_error_pct([getattr(own, side) for own, _ in shared], [getattr(one, side) for _, one in shared])
        for side in sides
    )
    return [row.label, *(f"{error:.1f}" for error in errors), signed(middle), signed(worst), str(len(shared))]


ORIGINAL = "measured with the original library"
"""How figures of records/upstream are labelled."""


def headline(found: Found, arms: Sequence[str]) -> str:
    """The first row of a measured plan, for some of its arms."""
    names = [one.name for one in found.settings.arms]
    indices = [names.index(arm) for arm in arms]
    lines = [
        [f"{tokens:,}", *(_repeats(found, 0, tokens, index) for index in indices)] for tokens in found.settings.tokens
    ]
    return table(["tokens per Attention rank", *(f"`{arm}` measured, us" for arm in arms)], lines, range(len(arms) + 1))


def measured_table(found: Found, row_index: int, simulated: Sequence[Found], others: Any) -> str:
    """What was measured of a row, beside simulated figures and those of the original library, of the same cells.

    Args:
        found: the measured plan.
        row_index: of the row.
        simulated: plans of the simulator.
        others: round trips measured with the original library.
    """
    settings = found.settings
    row, columns = settings.rows[row_index], Columns()
    shared = ", co-located" if settings.backend.ranks_per_gpu > 1 else ""
    for index, arm in enumerate(settings.arms):
        bare = " (bare rows)" if arm.name == "nccl" else ""
        columns.append(
            (f"`{arm.name}`{bare} measured{shared}", [_repeats(found, row_index, t, index) for t in settings.tokens])
        )
        if settings.exchange.mode == "eager":
            columns.append((f"`{arm.name}` host us, API calls", _host(found, row, arm.name)))
        if stands_beside_others(settings):
            columns += _other_kinds(found, row, arm.name, simulated, others)
    if settings.published and settings.backend.device.rendezvous == "host":
        columns += _published(settings, row)
    shown = [(name, cells) for name, cells in columns if any(cell != ABSENT for cell in cells)]
    lines = [[f"{tokens:,}", *(cells[at] for _, cells in shown)] for at, tokens in enumerate(settings.tokens)]
    return table(["T", *(name for name, _ in shown)], lines, range(len(shown) + 1))


def stands_beside_others(settings: Any) -> bool:
    """Whether figures of other kinds may stand beside those of a screen: graphs, with a GPU for every rank."""
    return settings.exchange.mode == "graph" and settings.backend.ranks_per_gpu == 1  # type: ignore[no-any-return]


def _repeats(found: Found, row: int, tokens: int, arm: int) -> str:
    """Median over pairs (lowest to highest; change against the baseline)."""
    figures = found.findings.repeats_us(row, tokens, arm)
    if not figures:
        return ABSENT
    compared = found.findings.comparisons.get((row, tokens, arm))
    change = f"; {percent(compared.change_pct)}" if compared else ""
    return f"{median(figures):.1f} ({min(figures):.1f}\u2013{max(figures):.1f}{change})"


def _host(found: Found, row: Row, arm: str) -> list[str]:
    """What an exchange costs an Attention rank's host, until it is enqueued."""
    wanted = (OK, "attention", row.layout, row.hidden, row.dtype, row.routing, arm)
    cells = []
    for tokens in found.settings.tokens:
        own = [one for one in found.records if one.tokens == tokens and _of_host(one) == wanted]
        us = [one.host_us for one in own if one.host_us is not None]
        calls = [one.host_calls for one in own if one.host_calls is not None]
        cells.append(f"{median(us):.1f}, {median(calls):.1f}" if us and calls else ABSENT)
    return cells


def _of_host(one: RoundTrip) -> tuple[object, ...]:
    return one.status, one.role, one.layout, one.hidden, one.dtype, one.routing, one.arm


def _other_kinds(found: Found, row: Row, arm: str, simulated: Sequence[Found], others: Any) -> Columns:
    """The columns of other kinds that stand beside an arm's measured one."""
    settings = found.settings
    name = UPSTREAM_ARM if arm == "m2n" else arm
    places = [(name, Point.of(row, tokens), settings.exchange.transport_sms) for tokens in settings.tokens]
    upstream = [", ".join(f"{figure:.1f}" for figure in others.get(place, ())) or ABSENT for place in places]
    title = f"{ORIGINAL} as M2N" if name == UPSTREAM_ARM else f"`{name}` beside it, {ORIGINAL}"
    cells = [_simulated(settings, row, arm, tokens, simulated) for tokens in settings.tokens]
    return [(title, upstream), (f"`{arm}` {KIND_OF_BACKEND['sim']}", cells)]


def _published(settings: Any, row: Row) -> Columns:
    """What was published of a row: by the table that the plan names, and of H200s. All of it stood behind a barrier."""
    beside, points = published.load(settings.published), [Point.of(row, tokens) for tokens in settings.tokens]
    cells = [beside.cells.get(point) for point in points]
    baseline = [f"{one.baseline_us:.1f}" if one else ABSENT for one in cells]
    candidate = [f"{one.candidate_us:.1f} ({percent(one.change_pct)})" if one else ABSENT for one in cells]
    columns = [("`m2n`", beside.nodes_gpus, baseline)]
    columns += [(f"`afdep@{beside.native_digest}`", beside.nodes_gpus, candidate)]
    for name, arm in (("`m2n`", published.BASELINE), ("`afdep`", published.CANDIDATE)):
        figures = published.round_trips(published.H200_TABLE, arm, published.H200S)
        shown = [f"{figures[point]:.1f}" if point in figures else ABSENT for point in points]
        columns.append((name, published.H200S, shown))
    return [(f"{name} published, {machine}", texts) for name, machine, texts in columns]


def _simulated(settings: Any, row: Row, arm: str, tokens: int, simulated: Sequence[Found]) -> str:
    for found in simulated:
        other = found.settings
        names = [one.name for one in other.arms]
        alike = (other.backend.machine, other.exchange) == (settings.backend.machine, settings.exchange)
        if alike and row in other.rows and arm in names:
            figures = found.findings.repeats_us(other.rows.index(row), tokens, names.index(arm))
            if figures:
                return f"{median(figures):.1f}"
    return ABSENT


def external_libraries(found: Found) -> list[str]:
    """What arms that no tree builds were, by their own account."""
    names = {one.name for one in found.plan.arms if one.identity.digest == EXTERNAL}
    return sorted({str(one.loaded_digest) for one in found.records if one.arm in names and one.loaded_digest})
