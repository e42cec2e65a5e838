"""What devices measured, from the plans and records of a folder, and which of it compares with a simulated figure.

A simulated round trip runs free: from the end of one exchange to the end of the next. So does a measured one where
replays run back to back. Where each replay starts behind a barrier of the hosts, its time holds a start as well: until
the hosts have launched, and the ranks found each other. That is one time a replay, not one an exchange, and no constant
of the machine: it is measured, on the fitted arm's cells that were timed both ways, and taken off by name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from harness.screen_config import Exchange, Row
from harness.errors import ReportError
from harness.pages import Part
from harness.plan import Cell
from harness.records.measured_fits import BEHIND, FREE, START_OFF, MeasuredAbsence, MeasuredPlan
from harness.tables import row_label
from harness.words import as_digest

ANY = "any"


@dataclass(frozen=True)
class Series:
    """A row under one exchange: what its cells share but tokens and arm."""

    row: Row
    exchange: Exchange

    @property
    def label(self) -> str:
        """The row, and its SMs."""
        return f"{row_label(self.row)}, {self.exchange.transport_sms} SMs"


@dataclass(frozen=True)
class Place:
    """A cell of an arm."""

    series: Series
    cell: Cell
    arm: str


@dataclass(frozen=True)
class Figures:
    """The measured figures of a cell, one a pair of processes, by how they were timed.

    Args:
        free_us: free-running.
        behind_us: behind host barriers.
        replay: exchanges of a replay behind host barriers; 0 where none ran.
    """

    free_us: tuple[float, ...] = ()
    behind_us: tuple[float, ...] = ()
    replay: int = 0

    @property
    def start_us(self) -> float | None:
        """What a replay behind host barriers took longer than its exchanges running free; None unless both ran."""
        if not self.free_us or not self.behind_us:
            return None
        return self.replay * (median(self.behind_us) - median(self.free_us))

    def compared(self, start_us: float | None) -> tuple[float, str]:
        """The figure that a simulated one stands beside, in us, and which it is."""
        if self.free_us:
            return median(self.free_us), FREE
        if start_us is None:
            return median(self.behind_us), BEHIND
        return median(self.behind_us) - start_us / self.replay, START_OFF


@dataclass(frozen=True)
class Targets:
    """What was measured of two arms.

    Args:
        cells: by place, in the order of the plans.
        start_us: the median start of the fitted arm's cells, None where no cell was timed both ways.
        digest: of the sources that were measured.
        plans: that the cells are of.
        absences: what of these plans does not count.
        devices: that they ran on.
    """

    cells: dict[Place, Figures]
    start_us: float | None
    digest: str
    plans: tuple[MeasuredPlan, ...] = ()
    absences: tuple[MeasuredAbsence, ...] = ()
    devices: tuple[str, ...] = ()

    @property
    def series(self) -> list[Series]:
        return list(dict.fromkeys(place.series for place in self.cells))


def targets(parts: Sequence[Part], arms: Sequence[str], digest: object) -> Targets:
    """Read what was measured of two arms, in graphs, with a GPU a rank.

    Args:
        parts: the plans of a folder with their records.
        arms: the fitted one, then the held-out one.
        digest: of the sources whose cells count, or `any`, where all are of one.

    Raises:
        ReportError: no such cell, no cell of the fitted arm, cells of several digests, replays of several lengths, or
            a start that leaves nothing of a cell.
        DigestError: a digest that is not written as one.
    """
    wanted = None if digest == ANY else as_digest(digest)
    gathering = _Gathering(arms, wanted)
    for part in parts:
        if _comparable(part):
            gathering.take(part)
    return gathering.targets()


def _comparable(part: Part) -> bool:
    """Whether a plan ran on GPUs, in graphs, with a GPU a rank: what is simulated."""
    backend, exchange = part.plan.backend, part.plan.exchange
    return (backend.device is not None, exchange.mode, exchange.collect, backend.ranks_per_gpu) == (
        True, "graph", "copy", 1,
    )  # fmt: skip


@dataclass
class _Gathering:
    arms: Sequence[str]
    wanted: str | None
    cells: dict[Place, Figures] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    plans: list[MeasuredPlan] = field(default_factory=list)
    absences: list[MeasuredAbsence] = field(default_factory=list)
    devices: dict[str, None] = field(default_factory=dict)

    def take(self, part: Part) -> None:
        """Take in the cells of a plan, and what of them does not count."""
        plan, found = part.plan, dict[Place, tuple[float, ...]]()
        chosen = [(index, one) for index, one in enumerate(plan.arms) if one.name in self.arms]
        chosen = [(index, one) for index, one in chosen if self.wanted in (None, one.identity.digest)]
        for row_index, row in enumerate(plan.rows):
            for cell in plan.cells:
                for index, arm in chosen:
                    figures = tuple(part.found.repeats_us(row_index, cell.tokens, index))
                    if figures:
                        found[Place(Series(row, plan.exchange), cell, arm.name)] = figures
                        self.digests[arm.identity.digest] = part.file.plan_hash
        if chosen:
            self._note(part, [one.name for _, one in chosen])
        for place, us in found.items():
            self.cells[place] = self._with(place, us, part)

    def _with(self, place: Place, us: tuple[float, ...], part: Part) -> Figures:
        known, backend = self.cells.get(place, Figures()), part.plan.backend
        assert backend.device is not None
        if backend.device.rendezvous == "device":
            return replace(known, free_us=known.free_us + us)
        lengths = {known.replay or backend.num_exchanges, backend.num_exchanges}
        if len(lengths) > 1 or backend.device.least_replay_us:
            received = f"at least {backend.device.least_replay_us:,} us" if len(lengths) == 1 else f"{sorted(lengths)}"
            raise ReportError(
                f"plan {part.file.plan_hash}: expected replays behind host barriers of one number of exchanges, "
                f"received {received}.",
                "Their starts cannot be told apart: keep those records in a folder of their own.",
            )
        return replace(known, behind_us=known.behind_us + us, replay=backend.num_exchanges)

    def _note(self, part: Part, arms: Sequence[str]) -> None:
        """Note the plan, what of it does not count, and where it ran."""
        file = part.file
        self.plans.append(
            MeasuredPlan(plan_hash=file.plan_hash, created=file.created, command=file.command, timing=_timing(part))
        )
        for gone in part.found.absences:
            if gone.arm in arms:
                what = f"{Series(gone.row, part.plan.exchange).label}, {gone.arm}, pair {gone.pair + 1}"
                self._absent(part, what, gone.tokens, (gone.status, gone.reason))
        for damaged in part.reading.quarantined:
            self._absent(part, damaged.name, None, ("quarantined", damaged.reason))
        for one in part.reading.records:
            if one.observed and one.status == "ok":
                facts = json.loads(one.observed)
                self.devices[f"{facts['gpus']} x {facts['device']}"] = None

    def _absent(self, part: Part, what: str, tokens: int | None, ending: tuple[str, str]) -> None:
        status, reason = ending
        plan_hash = part.file.plan_hash
        gone = MeasuredAbsence(plan_hash=plan_hash, what=what, tokens=tokens, status=status, reason=reason)
        self.absences.append(gone)

    def targets(self) -> Targets:
        """All of it, in order of series, tokens and arm."""
        if not any(place.arm == self.arms[0] for place in self.cells):
            of = "" if self.wanted is None else f" of {self.wanted}"
            received = f"{len(self.cells)} of {self.arms[1]} alone" if self.cells else "none"
            raise ReportError(
                f"source: expected measured cells of {self.arms[0]}{of}, in graphs with a GPU a rank, "
                f"received {received}.",
                "Give a folder that `python -m harness records keep=NAME` made of screens on GPUs.",
            )
        if len(self.digests) > 1:
            named = ", ".join(f"{digest} (as plan {plan})" for digest, plan in self.digests.items())
            raise ReportError(
                f"source: expected cells of one native digest, received {named}.", "Choose one: digest=DIGEST."
            )
        ordered = sorted(self.cells, key=lambda at: (*_order(at.series), at.cell.tokens, self.arms.index(at.arm)))
        cells = {place: self.cells[place] for place in ordered}
        return Targets(
            cells,
            self._start_us(cells),
            next(iter(self.digests)),
            tuple(self.plans),
            tuple(self.absences),
            tuple(self.devices),
        )

    def _start_us(self, cells: Mapping[Place, Figures]) -> float | None:
        starts = [one.start_us for place, one in cells.items() if place.arm == self.arms[0]]
        known = [start for start in starts if start is not None]
        start_us = median(known) if known else None
        for place, one in cells.items():
            if one.compared(start_us)[0] <= 0:
                raise ReportError(
                    f"{place.series.label}, {place.arm}, T = {place.cell.tokens:,}: expected a time above its start, "
                    f"received {median(one.behind_us):.1f} us an exchange and a start of {start_us:.0f} us a replay.",
                    "The two timings are not of one machine: keep their records in folders of their own.",
                )
        return start_us


def _order(series: Series) -> tuple[Any, ...]:
    """Layout, hidden, dtype, routing, then what else tells two series apart."""
    row = series.row
    return row.layout, row.hidden, row.dtype, row.routing, series.exchange.transport_sms, repr(series)


def _timing(part: Part) -> str:
    backend = part.plan.backend
    assert backend.device is not None
    if backend.device.rendezvous == "device":
        return f"free-running, replays of {backend.device.least_replay_us:,} us at least"
    return f"behind host barriers, replays of {backend.num_exchanges} exchanges"
