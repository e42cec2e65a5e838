"""The tables of a fit's page. Simulated, refitted, published and measured figures stand in columns of their own."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np

from harness.report.markdown import ABSENT, signed, table
from harness.studies.fit.fit import LEFT_OUT, MEASURED, Fit, rms

KINDS = ("simulated", "refitted")
MOST_MOVERS = 3
ROW = "layout, hidden, routing"
NO_BOUND = "no bound"
NO_NUMBER = ("", ABSENT, NO_BOUND)

Line = Mapping[str, str]
"""A line of a table, by the header of each cell."""


def lined(lines: Iterable[Line]) -> str:
    """A table, or nothing without a line; columns of numbers align right."""
    found = [dict(line) for line in lines]
    columns = list(zip(*(line.values() for line in found), strict=True))
    right = [at for at, one in enumerate(columns) if all(cell[-1:].isdigit() or cell in NO_NUMBER for cell in one)]
    return table(list(found[0]), [list(line.values()) for line in found], right) if found else ""


def residuals(fit: Fit) -> str:
    """The rms of every row and arm, with the machine file's constants and with the refitted ones."""
    told = fit.settings
    return lined(
        {
            ROW: told.label(row),
            "row is": _status(fit, row),
            **({"compared with": ", ".join(_timings(fit, row))} if told.target == "measured" else {}),
            **{
                f"{kind}: rms of {name}, %": percent(rms(fit.off_pct(kind, told.where(row=row, arm=arm))))
                for kind in KINDS
                for arm, name in enumerate(told.arms)
            },
        }
        for row in range(len(told.series))
    )


def _timings(fit: Fit, row: int) -> Iterable[str]:
    return dict.fromkeys(fit.settings.cells[at].timing for at in fit.settings.where(row=row))


def _status(fit: Fit, row: int) -> str:
    """How far a row is held out."""
    told, published = fit.settings, fit.settings.target == "published"
    if told.where(row=row, fitted=True):
        return "fitted on" if published else f"{told.arms[0]} fitted on"
    drawn = published and told.series[row].row.zipf_exponent is not None
    return "held out, but for its skew exponent" if drawn else "held out"


def needs(fit: Fit, row: int) -> str:
    """A row cell by cell: how far off it is, with both sets of constants, and which constants move it."""
    told = fit.settings
    return lined(
        {
            "T": f"{tokens:,}",
            **{
                f"{kind}: {name}, %": signed(float(off))
                for kind in KINDS
                for name, off in zip(told.arms, fit.off_pct(kind, told.where(row=row, tokens=tokens)), strict=True)
            },
            "moved most by": _strongest(fit, told.where(row=row, tokens=tokens)),
        }
        for tokens in dict.fromkeys(cell.tokens for cell in told.cells if cell.row == row)
    )


def _strongest(fit: Fit, cells: Sequence[int]) -> str:
    """The constants with the largest slopes, the mean over both arms."""
    known = [one for one in fit.settings.names if fit.settings.values[one] > 0]
    slopes = zip(known, fit.slopes_of(known, cells).mean(axis=1).tolist(), strict=True)
    largest_first = sorted(slopes, key=lambda pair: -abs(pair[1]))
    return ", ".join(f"`{name}` {signed(slope, 2)}" for name, slope in largest_first[:MOST_MOVERS])


def slopes(fit: Fit, arm: int) -> str:
    """The rms over tokens of the slopes of every constant, by row, of one arm."""
    told = fit.settings
    return lined(
        {
            f"constant, {told.arms[arm]}": f"`{one.name}`" if one.value else f"`{one.name}`, per {one.unit}",
            **{
                told.label(row): f"{value:.3f}" if value else "0"
                for row in range(len(told.series))
                for value in [rms(fit.slopes_of([one.name], told.where(row=row, arm=arm)))]
            },
        }
        for one in told.constants
        if one.name in told.names
    )


def published_cells(fit: Fit) -> str:
    """Every cell: published, simulated and refitted, and how far off each arm is."""
    told = fit.settings
    return lined(
        {
            ROW: told.label(told.cells[at].row) if at == told.where(row=told.cells[at].row)[0] else "",
            "T": f"{told.cells[at].tokens:,}",
            **{f"{kind}, us": f"{us[at + 1]:.1f} ({us[at]:.1f})" for kind, us in fit.us.items()},
            **{
                f"simulated against published: {name}, %": signed(float(off))
                for name, off in zip(told.arms, fit.off_pct("simulated", [at, at + 1]), strict=True)
            },
        }
        for at in told.where(arm=0)
    )


def overall(fit: Fit) -> str:
    """The rms of the fitted cells, of the fitted arm's other cells, and of the held-out arm."""
    told, (fitted, held_out) = fit.settings, fit.settings.arms
    groups = {
        f"{fitted}, fitted on": told.where(fitted=True),
        f"{fitted}, held out": told.where(arm=0, fitted=False),
        f"{held_out}, held out": told.where(arm=1),
        f"{held_out}, free-running alone": [at for at in told.where(arm=1) if told.cells[at].free_us],
    }
    words = "rms against figures with their starts, %"
    return lined(
        {
            "cells of": name,
            "number": str(len(cells)),
            **{f"{kind}: rms, %": percent(rms(fit.off_pct(kind, cells))) for kind in KINDS},
            **{f"{kind}: {words}": _raw(fit, kind, [at for at in cells if told.cells[at].behind_us]) for kind in KINDS},
        }
        for name, cells in groups.items()
    )


def _raw(fit: Fit, kind: str, cells: Sequence[int]) -> str:
    """The rms error against what was measured behind host barriers, starts and all."""
    measured = np.array([median(fit.settings.cells[at].behind_us) for at in cells])
    return percent(100.0 * rms(fit.us[kind][cells] / measured - 1.0))


def by_tokens(fit: Fit, arm: int) -> str:
    """How far off an arm is for each number of tokens, and on which side."""
    counts = sorted({cell.tokens for cell in fit.settings.cells if cell.arm == arm})
    return lined(_of_tokens(fit, tokens, fit.settings.where(arm=arm, tokens=tokens)) for tokens in counts)


def _of_tokens(fit: Fit, tokens: int, cells: Sequence[int]) -> Line:
    off = {kind: fit.off_pct(kind, cells) for kind in KINDS}
    figures = {kind: {"mean": signed(float(one.mean())), "rms": percent(rms(one))} for kind, one in off.items()}
    low = int((off["refitted"] < 0).sum())
    return {
        "T": f"{tokens:,}",
        "cells": str(len(cells)),
        **{f"{kind}: {what}, %": figure for kind, one in figures.items() for what, figure in one.items()},
        "refitted": f"{low} low, {len(cells) - low} high",
    }


def worst(fit: Fit, arm: int) -> str:
    """The cells of an arm that the refitted machine is farthest from."""
    cells = sorted(fit.settings.where(arm=arm), key=lambda at: -abs(fit.off_pct("refitted", [at])[0]))
    own = [(at, fit.settings.cells[at]) for at in cells[: fit.settings.worst]]
    return lined(
        {
            ROW: fit.settings.label(one.row),
            "T": f"{one.tokens:,}",
            "measured, us": f"{one.us:.1f}",
            "which": one.timing,
            **_both(fit, at),
        }
        for at, one in own
    )


def starts(fit: Fit) -> str:
    """The cells that were timed both ways."""
    return lined(
        {
            ROW: fit.settings.label(cell.row),
            "arm": fit.settings.arms[cell.arm],
            "T": f"{cell.tokens:,}",
            "measured free-running, us": f"{median(cell.free_us):.1f}",
            "measured behind barriers, us": f"{median(cell.behind_us):.1f}",
            "start of a replay, us": f"{cell.start_us:.0f}",
            "share of an exchange, us": f"{cell.start_us / cell.replay:.2f}",
        }
        for cell in fit.settings.cells
        if cell.start_us is not None
    )


def others(fit: Fit) -> str:
    """The constants that were not fitted, by why not."""
    return lined(
        {
            "constant": f"`{one.name}`",
            "unit": one.unit,
            "machine file": f"{one.value:g}",
            "it is": words,
            "source or reason": one.reason or one.source,
        }
        for kind, words in ((MEASURED, "measured by micro-benchmark"), (LEFT_OUT, "left out"))
        for one in fit.settings.constants
        if one.kind == kind
    )


def measured_cells(fit: Fit) -> str:
    """Every cell."""
    return lined(
        {
            ROW: fit.settings.label(one.row),
            "T": f"{one.tokens:,}",
            "arm": f"{fit.settings.arms[one.arm]}{' (fitted on)' if one.fitted else ''}",
            "measured free-running, us": _spread(one.free_us),
            "measured behind barriers, us": _spread(one.behind_us),
            "measured, as compared, us": f"{one.us:.1f}",
            **_both(fit, at),
        }
        for at, one in enumerate(fit.settings.cells)
    )


def _both(fit: Fit, at: int) -> Line:
    """What was simulated, then how far off it is."""
    off = {f"{kind}, %": signed(float(fit.off_pct(kind, [at])[0])) for kind in KINDS}
    return {f"{kind}, us": f"{fit.us[kind][at]:.1f}" for kind in KINDS} | off


def _spread(us: Sequence[float]) -> str:
    one = f"{us[0]:.1f}" if us else ABSENT
    return f"{median(us):.1f} ({min(us):.1f}\u2013{max(us):.1f})" if len(us) > 1 else one


def percent(value: float) -> str:
    """An error without its sign."""
    return ABSENT if math.isnan(value) else f"{value:.1f}"
