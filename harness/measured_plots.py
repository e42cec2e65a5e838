"""The plot of a page of measured plans: round trip against tokens, a panel for each row and timing."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

from harness import pages, upstream
from harness.pages import Figures, Part
from harness.plots import plain_ticks
from harness.tables import row_label

_COLUMNS = 3
_PANEL_INCHES = (3.9, 2.9)
_DPI = 110
_COLORS = ("#b3541e", "#1f5fa8", "#3a7d44", "#7a5195", "#6b6b6b")
_TICKS_US = (10, 20, 30, 50, 100, 200, 300, 500)

Panel = tuple[Part, int]


def latency(parts: Sequence[Part], others: Figures, path: Path) -> Path | None:
    """Draw every row of graph replays on GPUs: measured arms as lines, upstream's published figures as open markers.

    Args:
        parts: plans with their records.
        others: round trips of upstream code, as `pages.text` has them.
        path: of the picture.

    Returns:
        The path, or None where no such row has a figure.
    """
    panels = [(part, row) for part in pages.in_order(parts) for row in range(len(part.plan.rows)) if _has(part, row)]
    if not panels:
        return None
    lines = math.ceil(len(panels) / _COLUMNS)
    size = (_PANEL_INCHES[0] * _COLUMNS, _PANEL_INCHES[1] * lines + 0.6)
    figure, grid = plt.subplots(
        lines, _COLUMNS, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    colors: dict[str, str] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw(axes, panel, others, colors)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    _finish(figure, grid.flat, path)
    return path


def _has(part: Part, row: int) -> bool:
    return part.plan.exchange.mode == "graph" and any(key[0] == row for key in part.found.comparisons)


def _draw(axes: Any, panel: Panel, others: Figures, colors: dict[str, str]) -> None:
    part, index = panel
    plan, row = part.plan, part.plan.rows[index]
    shared = f", {plan.backend.ranks_per_gpu} ranks a GPU" if plan.backend.ranks_per_gpu > 1 else ""
    tokens = [cell.tokens for cell in plan.cells]
    for number, arm in enumerate(plan.arms):
        color = _color(arm.name, colors)
        found = [(x, part.found.repeats_us(index, x, number)) for x in tokens]
        points = [(x, median(figures)) for x, figures in found if figures]
        axes.plot(*zip(*points, strict=True), color=color, marker=".", label=f"{arm.name}, measured")
    name, sms = upstream.ARM, plan.exchange.transport_sms
    beside = [(x, others.get((name, upstream.place(row, x, sms)), ())) for x in tokens if not shared]
    points = [(x, figure) for x, figures in beside for figure in figures]
    if points:
        axes.plot(
            *zip(*points, strict=True),
            "s",
            color=_color("m2n", colors),
            fillstyle="none",
            label="upstream as M2N, published",
        )
    start = "free-running" if plan.backend.device and plan.backend.device.rendezvous == "device" else "common start"
    axes.set_title(f"{row_label(row)}, {sms} SMs, {start}{shared}", fontsize=8.5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    plain_ticks(axes.xaxis, tokens)
    plain_ticks(axes.yaxis, _TICKS_US)
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.tick_params(labelsize=8)


def _color(arm: str, colors: dict[str, str]) -> str:
    """The color of an arm in every panel, by the order in which arms come."""
    return colors.setdefault(arm, _COLORS[len(colors) % len(_COLORS)])


def _finish(figure: Any, grid: Any, path: Path) -> None:
    """Labels, one legend for all panels, and the file."""
    figure.supxlabel("tokens per Attention rank", fontsize=10)
    figure.supylabel("round trip, us", fontsize=10)
    named: dict[str, Any] = {}
    for axes in grid:
        handles, labels = axes.get_legend_handles_labels()
        named |= {label: handle for label, handle in zip(labels, handles, strict=True) if label not in named}
    figure.legend(
        named.values(), named.keys(), loc="outside upper center", ncols=min(5, len(named)), frameon=False, fontsize=9
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI, metadata={"Software": None})
    plt.close(figure)
