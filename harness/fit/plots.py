"""Plots of a fit, one question each: where is the model wrong, and which constant moves which cell?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from harness.fit.study import Study
from harness.plots import plain_ticks
from harness.tables import row_label

_COLORS = ("#b3541e", "#1f5fa8")
_DPI = 110
_PANEL_INCHES = (4.2, 2.7)


def errors(study: Study, path: Path) -> Path:
    """How far each arm is off against tokens, one panel a row, with the machine file's constants and the refitted."""
    count = len(study.rows)
    lines = -(-count // 2)
    size = (_PANEL_INCHES[0] * 2, _PANEL_INCHES[1] * lines + 0.5)
    figure, grid = plt.subplots(lines, 2, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained")
    for index, axes in enumerate(grid.flat):
        axes.set_visible(index < count)
        if index < count:
            _error_panel(axes, study, index)
    figure.supxlabel("tokens per Attention rank", fontsize=10)
    figure.supylabel("against published, %", fontsize=10)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return _save(figure, path)


def slopes(study: Study, path: Path) -> Path:
    """The slope of every constant that has any effect, in every cell."""
    shown = [index for index, one in enumerate(study.fit.constants) if one.value and abs(study.slopes[index]).max() > 0]
    values = np.moveaxis(study.slopes[shown], 3, 2).reshape(len(shown), -1)
    figure, axes = plt.subplots(figsize=(12, 0.24 * len(shown) + 2.4), layout="constrained")
    drawn = axes.imshow(values, cmap="RdBu_r", vmin=-0.5, vmax=0.5, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(shown)), [study.constants[index] for index in shown], fontsize=8)
    _cell_axis(axes, study)
    figure.colorbar(drawn, label="d log(us) / d log(constant)", extend="both", pad=0.01)
    return _save(figure, path)


def image_lines(paths: Sequence[Path], relative_to: Path) -> list[str]:
    """Markdown images with a text for those who cannot see them."""
    texts = ("Error of every cell against tokens", "Slope of every constant in every cell")
    return [f"![{words}]({path.relative_to(relative_to).as_posix()})" for words, path in zip(texts, paths, strict=True)]


def _error_panel(axes: Any, study: Study, row: int) -> None:
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    for us, kind, line in ((study.simulated_us, "simulated", ":"), (study.refitted_us, "refitted", "-")):
        for arm, name in enumerate(study.arms):
            off = 100.0 * (us[row, :, arm] / study.published.us[row, :, arm] - 1.0)
            axes.plot(study.tokens, off, line, color=_COLORS[arm], marker=".", label=f"{name}, {kind}")
    axes.set_title(f"{row_label(study.rows[row])}{' (fitted on)' if row in study.fitted_rows else ''}", fontsize=10)
    axes.set_xscale("log", base=2)
    plain_ticks(axes.xaxis, study.tokens)
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.tick_params(labelsize=9)


def _cell_axis(axes: Any, study: Study) -> None:
    """Cells from left to right: rows of the table, in each the arms, in each the tokens."""
    width = len(study.tokens)
    starts = range(0, len(study.rows) * 2 * width, width)
    labels = [f"{row_label(row)}\n{arm}" for row in study.rows for arm in study.arms]
    axes.set_xticks([start + (width - 1) / 2 for start in starts], labels, fontsize=7, rotation=40, ha="right")
    for index, start in enumerate(starts[1:], 1):
        axes.axvline(start - 0.5, color="black" if index % 2 == 0 else "0.6", linewidth=0.8)
    axes.set_xlabel(f"cells; in each block T = {', '.join(f'{tokens:,}' for tokens in study.tokens)}", fontsize=9)


def _save(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})
    plt.close(figure)
    return path
