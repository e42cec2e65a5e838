"""Tables and plots of a fit's page. Simulated, refitted, published and measured figures have columns of their own."""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from harness.report.markdown import ABSENT, lined, signed
from harness.report.plots import COLORS, dress, panels, save
from harness.studies.fit.fit import LEFT_OUT, MEASURED, Fit, rms

KINDS = ("simulated", "refitted")
MOST_MOVERS = 3
ROW = "layout, hidden, routing"


def residuals(fit: Fit) -> str:
    """The rms of every row and arm, with the machine file's constants and with the refitted ones."""
    return lined(
        {
            ROW: fit.settings.label(row),
            **_status(fit, row),
            **{
                f"{kind}: rms of {name}, %": percent(rms(fit.off_pct(kind, fit.settings.where(row=row, arm=arm))))
                for kind, (arm, name) in itertools.product(KINDS, enumerate(fit.settings.arms))
            },
        }
        for row in range(len(fit.settings.series))
    )


def _status(fit: Fit, row: int) -> dict[str, str]:
    """How far a row is held out, and which measured figures it has."""
    fitted = fit.settings.where(row=row, fitted=True)
    if fit.settings.target == "measured":
        timings = dict.fromkeys(fit.settings.cells[at].timing for at in fit.settings.where(row=row))
        words = f"{fit.settings.arms[0]} fitted on" if fitted else "held out"
        return {"row is": words, "compared with": ", ".join(timings)}
    drawn = "" if fit.settings.series[row].row.zipf_exponent is None else ", but for its skew exponent"
    return {"row is": "fitted on" if fitted else f"held out{drawn}"}


def needs(fit: Fit, row: int) -> str:
    """A row cell by cell: how far off it is, with both sets of constants, and which constants move it."""
    cells = {fit.settings.cells[at].tokens: [at, at + 1] for at in fit.settings.where(row=row, arm=0)}
    return lined(
        {
            "T": f"{tokens:,}",
            **{
                f"{kind}: {name}, %": signed(float(fit.off_pct(kind, both)[arm]))
                for kind, (arm, name) in itertools.product(KINDS, enumerate(fit.settings.arms))
            },
            "moved most by": _strongest(fit, both),
        }
        for tokens, both in cells.items()
    )


def _strongest(fit: Fit, cells: Sequence[int]) -> str:
    """The constants with the largest slopes, the mean over both arms."""
    known = [one for one in fit.settings.names if fit.settings.values[one] > 0]
    slopes = fit.slopes_of(known, cells).mean(axis=1)
    largest = np.argsort(-np.abs(slopes), kind="stable")[:MOST_MOVERS]
    return ", ".join(f"`{known[at]}` {signed(float(slopes[at]), 2)}" for at in largest)


def slopes(fit: Fit, arm: int) -> str:
    """The rms over tokens of the slopes of every constant, by row, of one arm."""
    rows = {fit.settings.label(row): fit.settings.where(row=row, arm=arm) for row in range(len(fit.settings.series))}
    return lined(
        {
            f"constant, {fit.settings.arms[arm]}": f"`{one.name}`" if one.value else f"`{one.name}`, per {one.unit}",
            **{
                label: f"{value:.3f}" if value else "0"
                for label, cells in rows.items()
                for value in [rms(fit.slopes_of([one.name], cells))]
            },
        }
        for one in fit.settings.constants
        if one.name in fit.settings.names
    )


def published_cells(fit: Fit) -> str:
    """Every cell: published, simulated and refitted, and how far off each arm is."""
    return lined(
        {
            ROW: fit.settings.label(one.row) if at == fit.settings.where(row=one.row)[0] else "",
            "T": f"{one.tokens:,}",
            **{f"{kind}, us": f"{us[at + 1]:.1f} ({us[at]:.1f})" for kind, us in fit.us.items()},
            **{
                f"simulated against published: {name}, %": signed(float(fit.off_pct("simulated", [at + arm])[0]))
                for arm, name in enumerate(fit.settings.arms)
            },
        }
        for at, one in enumerate(fit.settings.cells)
        if one.arm == 0
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
    return lined(
        {
            "cells of": name,
            "number": str(len(cells)),
            **{f"{kind}: rms, %": percent(rms(fit.off_pct(kind, cells))) for kind in KINDS},
            **{f"{kind}: rms against figures with their starts, %": _raw(fit, kind, cells) for kind in KINDS},
        }
        for name, cells in groups.items()
    )


def _raw(fit: Fit, kind: str, cells: Sequence[int]) -> str:
    """The rms error against what was measured behind host barriers, starts and all."""
    measured = {at: median(us) for at in cells if (us := fit.settings.cells[at].behind_us)}
    return percent(100.0 * rms(fit.us[kind][list(measured)] / np.array([*measured.values()]) - 1.0))


def by_tokens(fit: Fit, arm: int) -> str:
    """How far off an arm is for each number of tokens, and on which side."""
    counts = sorted({cell.tokens for cell in fit.settings.cells if cell.arm == arm})
    return lined(_of_tokens(fit, tokens, fit.settings.where(arm=arm, tokens=tokens)) for tokens in counts)


def _of_tokens(fit: Fit, tokens: int, cells: Sequence[int]) -> dict[str, str]:
    simulated, refitted = (fit.off_pct(kind, cells) for kind in KINDS)
    low = int((refitted < 0).sum())
    return {
        "T": f"{tokens:,}",
        "cells": str(len(cells)),
        "simulated: mean, %": signed(float(simulated.mean())),
        "simulated: rms, %": percent(rms(simulated)),
        "refitted: mean, %": signed(float(refitted.mean())),
        "refitted: rms, %": percent(rms(refitted)),
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


def _both(fit: Fit, at: int) -> dict[str, str]:
    """What was simulated, then how far off it is."""
    us = {f"{kind}, us": f"{fit.us[kind][at]:.1f}" for kind in KINDS}
    return us | {f"{kind}, %": signed(float(fit.off_pct(kind, [at])[0])) for kind in KINDS}


def _spread(us: Sequence[float]) -> str:
    lowest_to_highest = f" ({min(us):.1f}\u2013{max(us):.1f})" if len(us) > 1 else ""
    return f"{median(us):.1f}{lowest_to_highest}" if us else ABSENT


def percent(value: float) -> str:
    """An error without its sign."""
    return ABSENT if math.isnan(value) else f"{value:.1f}"


def draw_errors(fit: Fit, path: Path) -> tuple[Path, str]:
    """How far each arm is off against tokens, one panel a row, with the machine file's constants and the refitted."""
    drawn = [partial(_panel, fit, row) for row in range(len(fit.settings.series))]
    labels = "tokens per Attention rank", f"simulated against {fit.settings.target}, %"
    return panels(drawn, path, labels, inches=(4.2, 2.7)), "Error of every cell against tokens"


def _panel(fit: Fit, row: int, axes: Any) -> None:
    told, kinds = fit.settings, {"simulated": ":", "refitted": "-"}
    axes.axhspan(-told.goal_pct, told.goal_pct, color="0.95")
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    for (kind, line), (arm, name) in itertools.product(kinds.items(), enumerate(told.arms)):
        own = told.where(row=row, arm=arm)
        tokens = [told.cells[at].tokens for at in own]
        axes.plot(tokens, fit.off_pct(kind, own), line, color=COLORS[arm], marker=".", label=f"{name}, {kind}")
    fitted = " (fitted on)" if told.where(row=row, fitted=True) else ""
    dress(axes, told.label(row) + fitted, sorted({one.tokens for one in told.cells}), fontsize=9)


def draw_slopes(fit: Fit, path: Path) -> tuple[Path, str]:
    """The slope of every constant that has any effect, in every cell."""
    told = fit.settings
    blocks = {
        f"{told.label(row)}\n{name}": told.where(row=row, arm=arm)
        for row, (arm, name) in itertools.product(range(len(told.series)), enumerate(told.arms))
    }
    shown = [name for at, name in enumerate(told.names) if told.values[name] and fit.slopes[at].any()]
    values = fit.slopes_of(shown, [at for block in blocks.values() for at in block])
    figure, axes = plt.subplots(figsize=(12, 0.24 * len(shown) + 2.4), layout="constrained")
    drawn = axes.imshow(values, cmap="RdBu_r", vmin=-0.5, vmax=0.5, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(shown)), shown, fontsize=8)
    lengths = np.array([len(block) for block in blocks.values()])
    ends = np.cumsum(lengths) - 0.5
    axes.set_xticks(ends - lengths / 2, list(blocks), fontsize=7, rotation=40, ha="right")
    axes.vlines(ends[:-1], -0.5, len(shown) - 0.5, colors=["0.6", "black"], linewidth=0.8)
    axes.set_xlabel("cells; in each block by tokens per Attention rank", fontsize=9)
    figure.colorbar(drawn, label="d log(us) / d log(constant)", extend="both", pad=0.01)
    return save(figure, path), "Slope of every constant in every cell"
