"""How every plot looks: panels, axes with plain ticks, colours and marks that read in grey, and one legend."""

import io
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["MPLBACKEND"] = "agg"  # that of a notebook may not even be installed here

import matplotlib
from matplotlib import pyplot as plt
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from harness.records import files

DPI = 110
COLORS = ("#b3541e", "#1f5fa8", "#3a7d44", "#7a5195", "#6b6b6b")
_TICKS_US = (1, 2, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 5000)
_PLAIN = {**matplotlib.rcParamsDefault, "text.usetex": False}
"""Whatever a user's matplotlibrc says, plots look alike."""

Panel = Callable[[Any], None]


def panels(
    draw: Sequence[Panel],
    path: Path,
    labels: tuple[str, str],
    columns: int = 2,
    inches: tuple[float, float] = (4.6, 3.3),
) -> Path:
    """Draw panels that share their axes, with one legend above them.

    Args:
        draw: one function a panel, which is given its axes.
        path: of the picture.
        labels: of the axes, x before y.
        columns: of panels, at most.
        inches: of a panel.
    """
    columns = min(columns, len(draw))
    lines = math.ceil(len(draw) / columns)
    size = (inches[0] * columns, inches[1] * lines + 0.5)
    with matplotlib.rc_context(_PLAIN):
        figure, grid = plt.subplots(
            lines, columns, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for axes, one in zip(grid.flat, draw, strict=False):
            one(axes)
        for index in range(len(draw), grid.size):
            grid.flat[index].set_visible(False)
            grid.flat[index - columns].tick_params(labelbottom=True)
        figure.supxlabel(labels[0], fontsize=10)
        figure.supylabel(labels[1], fontsize=10)
        _legend(figure, grid.flat)
        return save(figure, path)


def _legend(figure: Any, grid: Any) -> None:
    named: dict[str, Any] = {}
    for axes in grid:
        handles, texts = axes.get_legend_handles_labels()
        named |= {text: handle for text, handle in zip(texts, handles, strict=True) if text not in named}
    figure.legend(
        named.values(), named.keys(), loc="outside upper center", ncols=min(4, len(named)), frameon=False, fontsize=9
    )


def save(figure: Any, path: Path) -> Path:
    """Write a figure at one stroke, without what would make two files of one picture differ."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI, metadata={"Software": None})
    plt.close(figure)
    return files.replace(path, stream.getvalue())


def dress(axes: Any, title: str, tokens: Sequence[int], fontsize: float = 10) -> None:
    """Title, grid and a token axis."""
    axes.set_title(title, fontsize=fontsize)
    axes.set_xscale("log", base=2)
    plain_ticks(axes.xaxis, [one for one in tokens if one > 0])
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.tick_params(labelsize=9)


def log_us(axes: Any) -> None:
    """A logarithmic axis of microseconds with plain numbers, whatever its range."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(list(_TICKS_US)))
    low, high = axes.get_ylim()
    if sum(low <= tick <= high for tick in _TICKS_US) < 3:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))


def plain_ticks(axis: Any, values: Sequence[int]) -> None:
    """Ticks at these values and no others, as plain numbers."""
    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
