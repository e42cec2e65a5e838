"""A plot of a fit to measured round trips: how far off is each arm, against tokens?"""

from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from harness.fit.measured.study import REFITTED, SIMULATED, Study, error_pct
from harness.plots import plain_ticks

_COLORS = ("#b3541e", "#1f5fa8")
_DPI = 110
_PANEL_INCHES = (4.2, 2.7)


def errors(study: Study, path: Path) -> Path:
    """How far each arm is off, one panel a row, with the machine file's constants and with the refitted ones."""
    lines = -(-len(study.rows) // 2)
    size = (_PANEL_INCHES[0] * 2, _PANEL_INCHES[1] * lines + 0.5)
    figure, grid = plt.subplots(lines, 2, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained")
    for index, axes in enumerate(grid.flat):
        axes.set_visible(index < len(study.rows))
        if index < len(study.rows):
            _panel(axes, study, study.rows[index])
    figure.supxlabel("tokens per Attention rank", fontsize=10)
    figure.supylabel("simulated against measured, %", fontsize=10)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})
    plt.close(figure)
    return path


def image_line(path: Path, relative_to: Path) -> str:
    """The plot in Markdown, with a text for those who cannot see it."""
    return f"![Error of every cell against tokens]({path.relative_to(relative_to).as_posix()})"


def _panel(axes: Any, study: Study, row: int) -> None:
    goal = study.settings["goal_pct"]
    axes.axhspan(-goal, goal, color="0.95")
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    for kind, line in ((SIMULATED, ":"), (REFITTED, "-")):
        for arm, name in enumerate(study.arms):
            own = study.where(row=row, arm=arm)
            off = [error_pct(cell, kind) for cell in own]
            tokens = [cell.tokens for cell in own]
            axes.plot(tokens, off, line, color=_COLORS[arm], marker=".", label=f"{name}, {kind}")
    axes.set_title(f"{study.label(row)}{' (fitted on)' if study.is_fitted_row(row) else ''}", fontsize=9)
    axes.set_xscale("log", base=2)
    plain_ticks(axes.xaxis, study.tokens)
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.tick_params(labelsize=9)
