"""Plots, one question each: how long does a cell take, and by how much does the candidate change it?"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from harness.comparison import Comparison
from harness.screen_config import Row
from harness.published import PublishedCell
from harness.tables import COLUMN_OF_BACKEND, Beside, row_label

_BASELINE_COLOR, _CANDIDATE_COLOR = "#b3541e", "#1f5fa8"
_PANEL_INCHES = (4.6, 3.3)
_DPI = 110

Series = tuple[list[int], list[float]]


class _Look(NamedTuple):
    """How one arm is drawn: prefix of its label, color, and marker of its published figures."""

    prefix: str
    color: str
    marker: str


def pictures(besides: Sequence[Beside], folder: Path, stem: str) -> list[Path]:
    """Draw both plots of every candidate arm; with several arms each name carries the arm's index."""
    drawn = []
    for beside in besides:
        name = stem if len(besides) == 1 else f"{stem}-{beside.arm}"
        drawn.append(latency(beside, folder / f"{name}-latency.png"))
        drawn.append(change(beside, folder / f"{name}-change.png"))
    return drawn


def image_lines(paths: Sequence[Path], relative_to: Path) -> list[str]:
    """Markdown images with a text for those who cannot see them."""
    texts = {"latency": "Round trip against tokens", "change": "Paired change against tokens"}
    return [f"![{texts[path.stem.rpartition('-')[2]]}]({path.relative_to(relative_to).as_posix()})" for path in paths]


def latency(beside: Beside, path: Path) -> Path:
    """Round trip against tokens, one panel per row: ours as lines, published figures as markers alone."""

    def draw(axes: Any, index: int) -> None:
        _both(axes, beside, index, "baseline_us", _Look(f"{beside.baseline_name}, ", _BASELINE_COLOR, "s"))
        _both(axes, beside, index, "candidate_us", _Look(f"{beside.candidate_name}, ", _CANDIDATE_COLOR, "o"))
        axes.set_yscale("log")
        plain_ticks(axes.yaxis, [10, 20, 50, 100, 200, 500, 1000])

    return _panels(beside, draw, "round trip, us", path)


def change(beside: Beside, path: Path) -> Path:
    """Paired change against tokens, one panel per row: ours as a line, published figures as markers alone."""

    def draw(axes: Any, index: int) -> None:
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        _both(axes, beside, index, "change_pct", _Look("", _CANDIDATE_COLOR, "o"))

    return _panels(beside, draw, f"change against {beside.baseline_name}, %", path)


def _both(axes: Any, beside: Beside, index: int, field: str, look: _Look) -> None:
    """One quantity of one row: our cells joined by a line, published cells as open markers."""
    tokens = [cell.tokens for cell in beside.plan.cells if cell.tokens > 0]
    row = beside.plan.rows[index]
    own = _series(field, [(x, beside.own(index, x)) for x in tokens])
    other = _series(field, [(x, beside.other(row, x)) for x in tokens])
    ours = COLUMN_OF_BACKEND[beside.plan.backend.name]
    axes.plot(*own, color=look.color, marker=".", label=f"{look.prefix}{ours}")
    if other[0]:
        axes.plot(*other, look.marker, color=look.color, fillstyle="none", label=f"{look.prefix}published")


def _series(field: str, cells: Sequence[tuple[int, Comparison | PublishedCell | None]]) -> Series:
    found = [(x, getattr(cell, field)) for x, cell in cells if cell is not None]
    return [x for x, _ in found], [y for _, y in found]


def _panels(beside: Beside, draw: Callable[[Any, int], None], y_label: str, path: Path) -> Path:
    rows = beside.plan.rows
    columns = min(2, len(rows))
    lines = math.ceil(len(rows) / columns)
    size = (_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * lines + 0.5)
    figure, grid = plt.subplots(
        lines, columns, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for index, axes in enumerate(grid.flat):
        if index >= len(rows):
            axes.set_visible(False)
            continue
        draw(axes, index)
        _dress(axes, rows[index], [cell.tokens for cell in beside.plan.cells])
    figure.supxlabel("tokens per Attention rank", fontsize=10)
    figure.supylabel(y_label, fontsize=10)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)), frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})
    plt.close(figure)
    return path


def _dress(axes: Any, row: Row, tokens: Sequence[int]) -> None:
    axes.set_title(row_label(row), fontsize=10)
    axes.set_xscale("log", base=2)
    plain_ticks(axes.xaxis, tokens)
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.tick_params(labelsize=9)


def plain_ticks(axis: Any, values: Sequence[int]) -> None:
    """Ticks at these values and no others, as plain numbers."""
    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
