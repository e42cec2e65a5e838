"""A fit of the cost model's constants: rounds of simulated cells, with constants changed as the search asks for it.

Nothing but these cells is recorded. Slopes, points of the search and refits follow from them, so a fit goes on wherever
it was ended, and what it finds does not depend on how many processes simulated for it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, ClassVar

from afdep import Machine, World
from harness.core.identity import Identity
from harness.core.plan import Plan
from harness.ranks import contract, loads
from harness.records.envelope import OK, Envelope
from harness.studies.fit.fit import Settings
from harness.studies.fit.search import LackingError, Trial, solved
from harness.study import Batch, Block, Ended, Said

BATCHES, LEAST, CELL_S = 8, 4, 0.4
"""Batches of a round at most; trials of a batch at least, as a start takes as long as some; what one takes."""
REDUCERS: dict[str, Callable[[Sequence[float]], float]] = {"published": median, "measured": fmean}
"""A screen on the simulator takes the median over exchanges; the replay of a device is one time over many of them."""


@dataclass(frozen=True, kw_only=True)
class Record(Envelope):
    """One simulated cell.

    Args:
        cell: its index in the plan.
        layout, hidden, dtype, routing, num_experts, transport_sms, tokens, arm: of the cell.
        changed: constants that differ from the machine file.
        values: theirs.
        num_exchanges: simulated ones; of a measured cell one load again and again, else drawn anew for each.
        reducer: of the exchanges: median, or mean where a measured figure is one.
        latency_us: the maximum over Attention ranks of that; null where the cell failed or is void.
        samples_us: round trips of all exchanges of the first Attention rank, then of the next.
    """

    table: ClassVar[str] = "fit_simulated"
    positive: ClassVar[tuple[str, ...]] = ("latency_us", "samples_us")

    cell: int = 0
    layout: str = ""
    hidden: int = 0
    dtype: str = ""
    routing: str = ""
    num_experts: int = 0
    transport_sms: int = 0
    tokens: int = 0
    arm: str = ""
    changed: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    num_exchanges: int = 1
    reducer: str = ""
    latency_us: float | None = None
    samples_us: tuple[float, ...] | None = None

    @property
    def trial(self) -> Trial:
        return Trial(self.cell, self.num_exchanges, tuple(zip(self.changed, self.values, strict=True)))


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """The cells that the search needs next; none where it has all, or one that it needs has failed."""
    try:
        solved(settings, done)
    except LackingError as lacking:
        if not {row.trial for row in done}.isdisjoint(lacking.trials):
            return ()
        dearest_first = sorted(lacking.trials, key=lambda one: -one.num_exchanges * settings.cells[one.cell].tokens)
        num_batches = min(BATCHES, -(-len(dearest_first) // LEAST))
        return [
            Block((Batch(trials, expected_s=CELL_S * len(trials)),))
            for trials in (tuple(dearest_first[at::num_batches]) for at in range(num_batches))
        ]
    return ()


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Time cells, each in a World of its own; times do not depend on what is moved, so none is proved."""
    built = contract.built("sim")
    group.session.opened(**{name: built[name] for name in ("code_digest", "compiler") if name in built})
    group.turn()
    for index, trial in enumerate(batch.trials):
        made = world(group.settings, trial)
        group.check(group.settings.arms[group.settings.cells[trial.cell].arm], Identity.from_report(made.identity))
        yield Said(index, {"samples_us": simulate(group.settings, trial, made)})


def world(settings: Settings, trial: Trial) -> World:
    """The World of a cell."""
    cell, series = settings.place(trial.cell)
    values = settings.values | dict(trial.changes)
    table = tuple(replace(one, value=values[one.name]) for one in settings.constants)
    shape = {"layout": series.row.layout, **series.exchange.shape_of(series.row), "arm": settings.arms[cell.arm]}
    return World(**shape, machine=Machine(settings.machine, table), mode="time")


def simulate(settings: Settings, trial: Trial, made: World) -> list[list[float]]:
    """Round trips in us of each Attention rank, one an exchange."""
    cell, series = settings.place(trial.cell)
    drawn = trial.num_exchanges if settings.target == "published" else 1
    sent = loads.make(series.exchange, series.row, cell.tokens, drawn) * (trial.num_exchanges // drawn)
    timing = made.time_exchanges(sent, series.exchange.bucket or max(1, cell.tokens))
    return [list(timing.per_rank_us[rank]) for rank in made.layout.attention_rank_ids]


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """One row."""
    settings, reducer = plan.settings, REDUCERS[plan.settings.target]
    cell, series = settings.place(trial.cell)
    row = Record(
        machine=settings.machine,
        cell=trial.cell,
        **{name: getattr(series.row, name) for name in ("layout", "hidden", "dtype", "routing", "num_experts")},
        transport_sms=series.exchange.transport_sms,
        tokens=cell.tokens,
        arm=settings.arms[cell.arm],
        changed=tuple(name for name, _ in trial.changes),
        values=tuple(value for _, value in trial.changes),
        num_exchanges=trial.num_exchanges,
        reducer=reducer.__name__.removeprefix("f"),
    )
    if ended.status != OK:
        return [replace(row, status=ended.status, reason=ended.reason)]
    samples = ended.said[0]["samples_us"]
    latency_us = max(float(reducer(one)) for one in samples)
    return [replace(row, latency_us=latency_us, samples_us=tuple(us for rank in samples for us in rank))]


def label(settings: Settings, trial: Trial) -> str:
    """A trial in words."""
    cell, _ = settings.place(trial.cell)
    changes = ", ".join(f"{name} {value:.4g}" for name, value in trial.changes) or "as its file"
    return f"{settings.label(cell.row)} T={cell.tokens:<5d} {settings.arms[cell.arm]:<16s} {changes}"


def figure(rows: Sequence[Record]) -> str:
    """A cell that counts, in words."""
    return f"{rows[0].latency_us:8.1f} us"
