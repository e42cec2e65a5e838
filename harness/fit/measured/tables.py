"""The tables of the page. Measured, simulated and refitted figures stand in columns of their own."""

import math
from collections.abc import Sequence
from statistics import fmean, median

from harness.fit.identify import Identification
from harness.fit.measured.study import (
    FITTED_ARM,
    HELD_OUT_ARM,
    REFITTED,
    SIMULATED,
    Select,
    Study,
    error_pct,
    raw_rms_pct,
    rms_pct,
    start_us,
)
from harness.fit.tables import CONSTANT_HEADER, constant_cells, signed
from harness.records.measured_fits import LEFT_OUT, MEASURED, MeasuredCell
from harness.tables import ABSENT, markdown

KINDS = (SIMULATED, REFITTED)
MOST_MOVERS = 6


def overall(study: Study) -> str:
    """The rms of the fitted cells, of the fitted arm's other cells, and of the held-out arm."""
    fitted, held_out = study.arms
    groups: list[tuple[str, Select]] = [
        (f"{fitted}, fitted on", lambda cell: cell.fitted),
        (f"{fitted}, held out", lambda cell: cell.arm == FITTED_ARM and not cell.fitted),
        (f"{held_out}, held out", lambda cell: cell.arm == HELD_OUT_ARM),
        (f"{held_out}, free-running alone", lambda cell: cell.arm == HELD_OUT_ARM and bool(cell.free_us)),
    ]
    lines = []
    for name, select in groups:
        cells = study.cells(select)
        rms = [rms_pct(cells, kind) for kind in KINDS] + [raw_rms_pct(cells, kind) for kind in KINDS]
        lines.append([name, str(len(cells)), *map(_percent, rms)])
    header = ["cells of", "number", *(f"{kind}: rms, %" for kind in KINDS)]
    header += [f"{kind}: rms against figures with their starts, %" for kind in KINDS]
    return markdown(header, lines, frozenset(range(1, 6)))


def by_row(study: Study) -> str:
    """The rms of every row and arm."""
    lines = []
    for row in study.rows:
        status = f"{study.arms[0]} fitted on" if study.is_fitted_row(row) else "held out"
        timings = dict.fromkeys(cell.timing for cell in study.where(row=row))
        rms = [rms_pct(study.where(row=row, arm=arm), kind) for kind in KINDS for arm in (FITTED_ARM, HELD_OUT_ARM)]
        lines.append([study.label(row), status, ", ".join(timings), *map(_percent, rms)])
    header = ["layout, hidden, routing", "row is", "compared with"]
    header += [f"{kind}: rms of {arm}, %" for kind in KINDS for arm in study.arms]
    return markdown(header, lines, frozenset(range(3, 7)))


def by_tokens(study: Study, arm: int) -> str:
    """How far off an arm is for each number of tokens, and on which side."""
    lines = []
    for tokens in study.tokens:
        cells = study.where(arm=arm, tokens=tokens)
        if cells:
            errors = [[error_pct(cell, kind) for cell in cells] for kind in KINDS]
            low = sum(error < 0 for error in errors[1])
            figures = [text for one in errors for text in (signed(fmean(one), 1), _percent(_rms(one)))]
            lines.append([f"{tokens:,}", str(len(cells)), *figures, f"{low} low, {len(cells) - low} high"])
    header = ["T", "cells", *(f"{kind}: {what}, %" for kind in KINDS for what in ("mean", "rms")), "refitted"]
    return markdown(header, lines, frozenset(range(6)))


def worst(study: Study, arm: int) -> str:
    """The cells of an arm that the refitted machine is farthest from."""
    cells = sorted(study.where(arm=arm), key=lambda cell: -abs(error_pct(cell, REFITTED)))
    lines = [
        [study.label(cell.row), f"{cell.tokens:,}", f"{cell.compared_us:.1f}", cell.timing, *_both(cell)]
        for cell in cells[: study.settings["worst"]]
    ]
    header = ["layout, hidden, routing", "T", "measured, us", "which", *(f"{kind}, us" for kind in KINDS)]
    return markdown([*header, *(f"{kind}, %" for kind in KINDS)], lines, frozenset({1, 2, 4, 5, 6, 7}))


def starts(study: Study) -> str:
    """The cells that were timed both ways."""
    lines = []
    for cell in study.fit.cells:
        start = start_us(cell)
        if start is not None:
            each = f"{start / cell.replay:.2f}"
            figures = [f"{median(us):.1f}" for us in (cell.free_us, cell.behind_us)]
            lines.append(
                [study.label(cell.row), study.arms[cell.arm], f"{cell.tokens:,}", *figures, f"{start:.0f}", each]
            )
    header = ["layout, hidden, routing", "arm", "T", "measured free-running, us", "measured behind barriers, us"]
    header += ["start of a replay, us", "share of an exchange, us"]
    return markdown(header, lines, frozenset(range(2, 7))) if lines else ""


def constants(study: Study, found: Identification) -> str:
    """Every fitted constant, and whether the fitted cells tell it."""
    lines = [
        [
            *constant_cells(one, found.errors_pct[index]),
            f"{found.effects_pct[index]:.1f}",
            found.verdict(index),
            one.reason or ABSENT,
        ]
        for index, one in enumerate(study.free)
    ]
    header = [*CONSTANT_HEADER, "effect of its range, rms %", "verdict", "measured in part"]
    return markdown(header, lines, frozenset({2, 3, 5, 6}))


def others(study: Study) -> str:
    """The constants that were not fitted, by why not."""
    lines = []
    for kind, words in ((MEASURED, "measured by micro-benchmark"), (LEFT_OUT, "left out")):
        for one in study.fit.constants:
            if one.kind == kind:
                lines.append([f"`{one.name}`", one.unit, f"{one.value:g}", words, one.reason or one.source])
    return markdown(["constant", "unit", "machine file", "it is", "source or reason"], lines, frozenset({2}))


def movers(study: Study) -> str:
    """The constants whose change alone would serve the held-out arm best."""
    lines = [
        [f"`{one.name}`", signed(one.change_pct, 0), f"{one.rms_pct:.1f}", f"{one.fitted_pct:.1f}"]
        for one in study.movers(HELD_OUT_ARM)[:MOST_MOVERS]
    ]
    fitted, held_out = study.arms
    header = ["constant", "its change, %", f"{held_out} of the fitted rows then: rms, %"]
    return markdown([*header, f"the fitted cells of {fitted} then: rms, %"], lines, frozenset(range(1, 4)))


def cells(study: Study) -> str:
    """Every cell."""
    lines = []
    for cell in study.fit.cells:
        measured = [_spread(us) for us in (cell.free_us, cell.behind_us)]
        name = f"{study.arms[cell.arm]}{' (fitted on)' if cell.fitted else ''}"
        compared = f"{cell.compared_us:.1f}"
        lines.append([study.label(cell.row), f"{cell.tokens:,}", name, *measured, compared, *_both(cell)])
    header = ["layout, hidden, routing", "T", "arm", "measured free-running, us", "measured behind barriers, us"]
    header += ["measured, as compared, us", *(f"{kind}, us" for kind in KINDS), *(f"{kind}, %" for kind in KINDS)]
    return markdown(header, lines, frozenset({1, *range(3, 10)}))


def _both(cell: MeasuredCell) -> list[str]:
    """What was simulated, then how far off it is."""
    figures = [f"{cell.simulated_us:.1f}", f"{cell.refitted_us:.1f}"]
    return [*figures, *(signed(error_pct(cell, kind), 1) for kind in KINDS)]


def _spread(us: Sequence[float]) -> str:
    if not us:
        return ABSENT
    return f"{median(us):.1f} ({min(us):.1f}\u2013{max(us):.1f})" if len(us) > 1 else f"{us[0]:.1f}"


def _percent(value: float) -> str:
    return ABSENT if math.isnan(value) else f"{value:.1f}"


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(fmean(value * value for value in values))
