"""The figures that a fit is to come near to: those of a published table, or what devices measured.

A simulated round trip runs free: from the end of one exchange to the end of the next. So does a measured one where
replays run back to back. Where each replay starts behind a barrier of the hosts, its time holds a start as well: until
the hosts have launched, and the ranks found each other. That is one time a replay, not one an exchange, and no constant
of the machine: it is measured, on the fitted arm's cells that were timed both ways, and taken off by name.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from afdep import NativeDigest, native_digest
from harness.errors import ConfigError, ReportError
from harness.ranks.cells import TRACE
from harness.report import published
from harness.report.page import damaged
from harness.report.published import Point
from harness.report.results import Results
from harness.studies.fit.fit import BEHIND, FREE_RUNNING, START_OFF, Cell, Series, Source
from harness.studies.screen.report import listed
from harness.studies.screen.tables import Found

Target = tuple[tuple[Series, ...], tuple[Cell, ...], Source]
"""Rows, their cells with the figures that these are to have, and where the figures are from."""


def of_table(screen: Any, folder: Path) -> Target:
    """The published figures of both arms of a screen.

    Args:
        screen: its settings.
        folder: of the published record.

    Raises:
        ConfigError: a cell without one.
        PublishedError: no such table.
    """
    table, cells = published.load(screen.published, folder / "tables.csv"), list[Cell]()
    for (index, row), tokens in itertools.product(enumerate(screen.rows), screen.tokens):
        if (figures := table.cells.get(Point.of(row, tokens))) is None:
            raise ConfigError(
                f"cell {row.label}, T = {tokens:,}: expected a published figure, received none.",
                f"Fit to cells of {screen.published} alone.",
            )
        cells.append(Cell(index, tokens, 0, figures.baseline_us))
        cells.append(Cell(index, tokens, 1, figures.candidate_us, change_pct=figures.change_pct))
    return tuple(Series(row, screen.exchange) for row in screen.rows), tuple(cells), Source(table.table_id)


def of_devices(results: Results, arms: Sequence[str], digest: str | None) -> Target:
    """What was measured of two arms, in graphs, with a GPU a rank.

    Args:
        results: screens with their records.
        arms: the fitted one, then the held-out one.
        digest: of the sources whose cells count; None: all are of one.

    Raises:
        ReportError: no such cell, no cell of the fitted arm, cells of several digests, replays of several lengths, or
            a start that leaves nothing of a cell.
        DigestError: a digest that is not written as one.
    """
    wanted = None if digest is None else str(NativeDigest.parse(digest))
    chosen = [
        (found, at, arm)
        for found in map(Found, results.parts)
        for at, arm in enumerate(found.plan.arms)
        if _comparable(found) and arm.name in arms and wanted in (None, arm.identity.digest)
    ]
    figures, digests = _figures(chosen, arms)
    _check(figures, digests, arms, wanted)
    series = sorted(
        {one for one, _, _ in figures},
        key=lambda one: (*list(vars(one.row).values())[:4], one.exchange.transport_sms, repr(one)),
    )
    placed = [replace(cell, row=series.index(one)) for (one, _, _), cell in figures.items()]
    starts = [cell.start_us for cell in placed if cell.arm == 0 and cell.start_us is not None]
    start_us = median(starts) if starts else None
    compared = (_compared(cell, start_us, series[cell.row]) for cell in placed)
    cells = sorted(compared, key=lambda cell: (cell.row, cell.tokens, cell.arm))
    plans = {found.plan.plan_hash: found for found, _, _ in chosen}.values()
    absences = (
        f"{line} (plan {found.plan.plan_hash})"
        for found in plans
        for line in listed([one for one in found.findings.absences if one.arm in arms], "")
    )
    devices = dict.fromkeys(
        f"{one['gpus']} x {one['device']}" for found in plans for one in found.facts if "device" in one
    )
    (measured,), on = digests, "; ".join(devices) or "devices that were not told"
    lines = f"measured: {results.name} on {on}, native digest {measured}", *map(_of_plan, plans)
    gone = (*absences, *damaged(results))
    return (
        tuple(series),
        tuple(cells),
        Source(results.name, measured, str(native_digest("cuda")), start_us, lines, gone),
    )


def _comparable(found: Found) -> bool:
    """Whether a plan ran on GPUs, in graphs, with a GPU a rank: what is simulated."""
    backend, exchange = found.settings.backend, found.settings.exchange
    return (exchange.mode, exchange.collect, backend.name, backend.ranks_per_gpu) == ("graph", "copy", "cuda", 1)


def _figures(chosen: Sequence[Any], arms: Sequence[str]) -> tuple[dict[tuple[Series, int, str], Cell], dict[str, str]]:
    """The figures of every cell, and of each native digest a plan that has it."""
    figures, digests = dict[tuple[Series, int, str], Cell](), dict[str, str]()
    for found, at, arm in chosen:
        screen = found.settings
        for (index, row), tokens in itertools.product(enumerate(screen.rows), screen.tokens):
            us = tuple(found.findings.repeats_us(index, tokens, at))
            if us and not row.routing.startswith(TRACE):
                place = Series(row, screen.exchange), tokens, arm.name
                known = figures.get(place, Cell(0, tokens, arms.index(arm.name), 0.0))
                figures[place], digests[arm.identity.digest] = _with(known, us, found), found.plan.plan_hash
    return figures, digests


def _with(known: Cell, us: tuple[float, ...], found: Found) -> Cell:
    """A cell with figures of one more plan."""
    backend = found.settings.backend
    if backend.device.rendezvous == "device":
        return replace(known, free_us=known.free_us + us)
    lengths = sorted({known.replay or backend.num_exchanges, backend.num_exchanges})
    if len(lengths) > 1 or backend.device.least_replay_us:
        received = f"at least {backend.device.least_replay_us:,} us" if len(lengths) == 1 else f"{lengths}"
        raise ReportError(
            f"plan {found.plan.plan_hash}: expected replays behind host barriers of one number of exchanges, "
            f"received {received}.",
            "Their starts cannot be told apart: keep those records in a folder of their own.",
        )
    return replace(known, behind_us=known.behind_us + us, replay=backend.num_exchanges)


def _check(
    figures: Iterable[tuple[Series, int, str]], digests: dict[str, str], arms: Sequence[str], wanted: str | None
) -> None:
    names = [arm for _, _, arm in figures]
    if arms[0] not in names:
        received = f"{len(names)} of {arms[1]} alone" if names else "none"
        raise ReportError(
            f"source: expected measured cells of {arms[0]}{f' of {wanted}' if wanted else ''}, in graphs with a GPU a "
            f"rank, received {received}.",
            "Give a folder of archived screens that ran on GPUs.",
        )
    if len(digests) > 1:
        raise ReportError(
            "source: expected cells of one native digest, received "
            f"{', '.join(f'{digest} (as plan {plan})' for digest, plan in digests.items())}.",
            "Choose one: digest=DIGEST.",
        )


def _compared(cell: Cell, start_us: float | None, series: Series) -> Cell:
    """A cell with the figure that a simulated one stands beside, and which it is."""
    timing = FREE_RUNNING if cell.free_us else BEHIND if start_us is None else START_OFF
    us = median(cell.free_us) if cell.free_us else median(cell.behind_us) - (start_us or 0.0) / cell.replay
    if us <= 0:
        raise ReportError(
            f"{series.row.label}, T = {cell.tokens:,}: expected a time above its start, received "
            f"{median(cell.behind_us):.1f} us an exchange and a start of {start_us:.0f} us a replay.",
            "The two timings are not of one machine: keep their records in folders of their own.",
        )
    return replace(cell, us=us, timing=timing)


def _of_plan(found: Any) -> str:
    backend, file = found.settings.backend, found.part.file
    timing = {
        "device": f"free-running, replays of {backend.device.least_replay_us:,} us at least",
        "host": f"behind host barriers, replays of {backend.num_exchanges} exchanges",
    }
    return f"plan {file.plan_hash}, {timing[backend.device.rendezvous]}: `{file.command}`; {file.created}"
