"""Plots of a fit, one question each: where is the model wrong, and which constant moves which cell?"""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from harness.report.plots import COLORS, dress, panels, save
from harness.studies.fit.fit import Fit


def errors(fit: Fit, path: Path) -> tuple[Path, str]:
    """How far each arm is off against tokens, one panel a row, with the machine file's constants and the refitted."""
    drawn = [partial(_panel, fit, row) for row in range(len(fit.settings.series))]
    y = f"simulated against {fit.settings.target}, %"
    return panels(
        drawn, path, ("tokens per Attention rank", y), inches=(4.2, 2.7)
    ), "Error of every cell against tokens"


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


def slopes(fit: Fit, path: Path) -> tuple[Path, str]:
    """The slope of every constant that has any effect, in every cell."""
    told = fit.settings
    blocks = {(row, arm): told.where(row=row, arm=arm) for row in range(len(told.series)) for arm in (0, 1)}
    shown = [at for at, name in enumerate(told.names) if told.values[name] and fit.slopes[at].any()]
    values = fit.slopes[np.ix_(shown, [at for block in blocks.values() for at in block])]
    figure, axes = plt.subplots(figsize=(12, 0.24 * len(shown) + 2.4), layout="constrained")
    drawn = axes.imshow(values, cmap="RdBu_r", vmin=-0.5, vmax=0.5, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(shown)), [told.names[at] for at in shown], fontsize=8)
    ends = np.cumsum([len(block) for block in blocks.values()]) - 0.5
    middles = [end - len(block) / 2 for end, block in zip(ends, blocks.values(), strict=True)]
    labels = [f"{told.label(row)}\n{told.arms[arm]}" for row, arm in blocks]
    axes.set_xticks(middles, labels, fontsize=7, rotation=40, ha="right")
    axes.vlines(ends[:-1], -0.5, len(shown) - 0.5, colors=["0.6", "black"], linewidth=0.8)
    axes.set_xlabel("cells; in each block by tokens per Attention rank", fontsize=9)
    figure.colorbar(drawn, label="d log(us) / d log(constant)", extend="both", pad=0.01)
    return save(figure, path), "Slope of every constant in every cell"
