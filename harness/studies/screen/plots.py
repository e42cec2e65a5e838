"""The plots of screens, one question each: how long does a cell take, and by how much does the candidate change it?"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from harness.report.markdown import KIND_OF_BACKEND
from harness.report.plots import COLORS, dress, log_us, panels
from harness.report.published import UPSTREAM_ARM, Point, PublishedCell
from harness.studies.screen.findings import Comparison, Findings
from harness.studies.screen.tables import Beside

_TOKENS = "tokens per Attention rank"
Series = tuple[list[int], list[float]]


class _Look(NamedTuple):
    """How one arm is drawn: prefix of its label, color, and marker of its published figures."""

    prefix: str
    color: str
    marker: str


def both(beside: Beside, folder: Path, stem: str) -> list[tuple[Path, str]]:
    """Round trip and paired change of a candidate arm, a panel for each row."""
    return [
        (latency(beside, folder / f"{stem}-latency.png"), "Round trip against tokens"),
        (change(beside, folder / f"{stem}-change.png"), "Paired change against tokens"),
    ]


def latency(beside: Beside, path: Path) -> Path:
    """Round trip against tokens: ours as lines, published figures as markers alone."""

    def draw(axes: Any, index: int) -> None:
        _line(axes, beside, index, "baseline_us", _Look(f"{beside.baseline_name}, ", COLORS[0], "s"))
        _line(axes, beside, index, "candidate_us", _Look(f"{beside.candidate_name}, ", COLORS[1], "o"))
        log_us(axes)

    return _rows(beside, draw, "round trip, us", path)


def change(beside: Beside, path: Path) -> Path:
    """Paired change against tokens: ours as a line, published figures as markers alone."""

    def draw(axes: Any, index: int) -> None:
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        _line(axes, beside, index, "change_pct", _Look("", COLORS[1], "o"))

    return _rows(beside, draw, f"change against {beside.baseline_name}, %", path)


def _rows(beside: Beside, draw: Any, label: str, path: Path) -> Path:
    settings = beside.found.settings

    def panel(index: int, axes: Any) -> None:
        draw(axes, index)
        dress(axes, settings.rows[index].label, settings.tokens)

    return panels([partial(panel, index) for index in range(len(settings.rows))], path, (_TOKENS, label))


def _line(axes: Any, beside: Beside, index: int, field: str, look: _Look) -> None:
    """One quantity of one row: our cells joined by a line, published cells as open markers."""
    settings = beside.found.settings
    tokens = [one for one in settings.tokens if one > 0]
    own = _series(field, [(x, beside.own(index, x)) for x in tokens])
    other = _series(field, [(x, beside.other(settings.rows[index], x)) for x in tokens])
    ours = KIND_OF_BACKEND[settings.backend.name]
    axes.plot(*own, color=look.color, marker=".", label=f"{look.prefix}{ours}")
    if other[0]:
        axes.plot(*other, look.marker, color=look.color, fillstyle="none", label=f"{look.prefix}published")


def _series(field: str, cells: Sequence[tuple[int, Comparison | PublishedCell | None]]) -> Series:
    found = [(x, getattr(cell, field)) for x, cell in cells if cell is not None]
    return [x for x, _ in found], [y for _, y in found]


def timing(found: Findings) -> str:
    """How a plan timed, in words; plans that timed alike stand together."""
    settings, device = found.settings, found.settings.backend.device
    replay = f"{settings.backend.num_exchanges} exchanges each"
    if device.least_replay_us:
        replay = f"at least {device.least_replay_us:,} us each"
    start = {"host": "each behind a barrier of all ranks", "device": "free-running"}[device.rendezvous]
    kind = {"graph": "graph replays", "eager": "calls by the host in batches"}[settings.exchange.mode]
    most = settings.backend.ranks_per_gpu
    share = "" if most == 1 else f", at most {most} ranks a GPU, co-located"
    return f"{settings.exchange.transport_sms} transport SMs, {kind} of {replay}, {start}{share}"


def measured(found: Sequence[Findings], others: Any, path: Path) -> list[tuple[Path, str]]:
    """Every row of graph replays on GPUs: measured arms as lines, those of the original library as open markers.

    Args:
        found: measured plans in the order of the page.
        others: round trips measured with the original library.
        path: of the picture.
    """
    shown = [(one, row) for one in found for row in range(len(one.settings.rows)) if _has(one, row)]
    if not shown:
        return []
    arms = list(dict.fromkeys(arm.name for one, _ in shown for arm in one.settings.arms))
    colors = {name: COLORS[index % len(COLORS)] for index, name in enumerate(arms)}
    draw = [partial(_measured_panel, *one, others, colors) for one in shown]
    drawn = panels(draw, path, (_TOKENS, "round trip, us"), columns=3, inches=(3.9, 2.9))
    return [(drawn, "Round trip against tokens")]


def _has(found: Findings, row: int) -> bool:
    return found.settings.exchange.mode == "graph" and any(key[0] == row for key in found.comparisons)


def _measured_panel(found: Findings, index: int, others: Any, colors: dict[str, str], axes: Any) -> None:
    settings = found.settings
    row, sms = settings.rows[index], settings.exchange.transport_sms
    shared = f", {settings.backend.ranks_per_gpu} ranks a GPU" if settings.backend.ranks_per_gpu > 1 else ""
    for number, arm in enumerate(settings.arms):
        repeats = [(x, found.repeats_us(index, x, number)) for x in settings.tokens]
        points = [(x, median(figures)) for x, figures in repeats if figures]
        axes.plot(*zip(*points, strict=True), color=colors[arm.name], marker=".", label=f"{arm.name}, measured")
    beside = [(x, others.get((UPSTREAM_ARM, Point.of(row, x), sms), ())) for x in settings.tokens if not shared]
    points = [(x, figure) for x, figures in beside for figure in figures]
    if points:
        look = {"color": colors.get("m2n", COLORS[0]), "fillstyle": "none"}
        axes.plot(*zip(*points, strict=True), "s", **look, label="M2N, measured with the original library")
    start = {"device": "free-running", "host": "common start"}[settings.backend.device.rendezvous]
    log_us(axes)
    dress(axes, f"{row.label}, {sms} SMs, {start}{shared}", settings.tokens, fontsize=8.5)
