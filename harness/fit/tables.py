"""The tables of a fit's page. Simulated, refitted and published figures stand in columns of their own."""

import math
from collections.abc import Sequence

import numpy as np

from harness.fit.figures import rms_pct
from harness.fit.identify import Identification
from harness.fit.leave_out import Move, Refit, strongest
from harness.fit.study import Study
from harness.records.fits import FitConstant
from harness.records.measured_fits import MeasuredConstant
from harness.tables import ABSENT, MINUS, markdown, row_label

MOST_MOVERS = 3
LEAST_SHARE = 0.3
"""Of a direction of unit length: constants with a smaller part in it are left out."""

CONSTANT_HEADER = ("constant", "unit", "machine file", "refitted", "bounds", "standard error, %")
"""What every table of fitted constants begins with."""


def status(study: Study, row: int) -> str:
    """How far a row is held out."""
    if row in study.fitted_rows:
        return "fitted on"
    return "held out" if study.rows[row].zipf_exponent is None else "held out, but for its skew exponent"


def residuals(study: Study) -> str:
    """The rms of every row and arm, with the machine file's constants and with the refitted ones."""
    lines = []
    for index, row in enumerate(study.rows):
        rms = [
            f"{rms_pct(us[index, :, arm], study.published.us[index, :, arm]):.1f}"
            for us in (study.simulated_us, study.refitted_us)
            for arm in (0, 1)
        ]
        lines.append([row_label(row), status(study, index), *rms])
    header = [
        "layout, hidden, routing",
        "row is",
        *(f"{kind}: rms of {arm}, %" for kind in ("simulated", "refitted") for arm in study.arms),
    ]
    return markdown(header, lines, frozenset(range(2, 6)))


def constants(study: Study, found: Identification) -> str:
    """Every fitted constant: its values, its standard error, and whether the figures tell it."""
    lines = [
        [
            *constant_cells(one, found.errors_pct[index]),
            percent_bound(found.alone_pct[index]),
            f"{found.effects_pct[index]:.1f}",
            f"{found.span_shares[index]:.3f}",
            found.verdict(index),
        ]
        for index, one in enumerate(study.free)
    ]
    header = [
        *CONSTANT_HEADER,
        "if the others were known, %",
        "effect of its range, rms %",
        "share that the others can make",
        "verdict",
    ]
    return markdown(header, lines, frozenset({2, 3, 5, 6, 7, 8}))


def constant_cells(one: FitConstant | MeasuredConstant, error_pct: float) -> list[str]:
    """A constant that was fitted, in the columns of CONSTANT_HEADER."""
    values = f"{one.value:g}", f"{one.refitted:.4g}", f"{one.lower:g} to {one.upper:g}"
    return [f"`{one.name}`", one.unit, *values, percent_bound(error_pct)]


def percent_bound(value: float) -> str:
    """A standard error; one that exceeds a factor of ten is said as such."""
    if not math.isfinite(value):
        return "no bound"
    return "over 900" if value > 900 else f"{value:.0f}"


def directions(found: Identification) -> str:
    """The singular values of the Jacobian, the largest first, and what the constants do together along each."""
    lines = [
        [str(index + 1), f"{value:.2f}", percent_bound(found.direction_errors_pct[index]), _together(found, index)]
        for index, value in enumerate(found.singular_values)
    ]
    header = ["direction", "singular value, % per unit of log", "standard error along it, %", "log of the constants"]
    return markdown(header, lines, frozenset({0, 1, 2}))


def _together(found: Identification, index: int) -> str:
    """The constants that make most of a direction; its first one counts as up."""
    parts = found.directions[index]
    most = int(np.argmax(np.abs(parts)))
    parts = parts * np.sign(parts[most])
    order = [int(one) for one in np.argsort(-np.abs(parts)) if abs(parts[one]) >= LEAST_SHARE]
    return ", ".join(f"{signed(float(parts[one]), 2)} `{found.names[one]}`" for one in order)


def refits(study: Study, found: Sequence[Refit]) -> str:
    """Linearised refits that leave a row out, or have it alone."""
    lines = [
        [
            row_label(study.rows[one.row]),
            *(f"{value:.1f}" for value in _in_order(one)),
            ", ".join(f"`{name}`" for name in one.at_bound) or ABSENT,
        ]
        for one in found
    ]
    header = [
        "layout, hidden, routing",
        "simulated: rms, %",
        "row left out, linearised: rms, %",
        "row left out, simulated: rms, %",
        "row alone, linearised: rms, %",
        "row alone, simulated: rms, %",
        "row alone, linearised: rms of the fitted rows, %",
        "as far as it may, row alone",
    ]
    return markdown(header, lines, frozenset(range(1, 7)))


def _in_order(one: Refit) -> tuple[float, ...]:
    left_out = one.without_pct, one.without_simulated_pct
    return one.now_pct, *left_out, one.alone_pct, one.alone_simulated_pct, one.others_pct


def moves(study: Study, by_row: Sequence[Sequence[Move]]) -> str:
    """For each row the constants that alone would serve it best."""
    lines = []
    for index, found in enumerate(by_row):
        for move in found[:MOST_MOVERS]:
            label = row_label(study.rows[index]) if move is found[0] else ""
            change = signed(move.change_pct, 0)
            lines.append([label, f"`{move.name}`", change, f"{move.row_pct:.1f}", f"{move.fitted_pct:.1f}"])
    header = [
        "layout, hidden, routing",
        "constant",
        "linearised: its change, %",
        "the row then: rms, %",
        "the fitted rows then: rms, %",
    ]
    return markdown(header, lines, frozenset(range(2, 5)))


def needs(study: Study, row: int) -> str:
    """A row cell by cell: how far off it is, with both sets of constants, and which constants move it."""
    now, left = (100.0 * (us[row] / study.published.us[row] - 1.0) for us in (study.simulated_us, study.refitted_us))
    lines = [
        [
            f"{tokens:,}",
            *(signed(float(value), 1) for value in (*now[column], *left[column])),
            ", ".join(f"`{name}` {signed(slope, 2)}" for name, slope in strongest(study, row, column)[:MOST_MOVERS]),
        ]
        for column, tokens in enumerate(study.tokens)
    ]
    header = ["T", *(f"{kind}: {arm}, %" for kind in ("simulated", "refitted") for arm in study.arms), "moved most by"]
    return markdown(header, lines, frozenset(range(5)))


def slopes(study: Study, arm: int) -> str:
    """The rms over tokens of the slopes of every constant, by row, of one arm."""
    lines = []
    for index, one in enumerate(study.fit.constants):
        rms = np.sqrt(np.mean(study.slopes[index, ..., arm] ** 2, axis=1))
        name = f"`{one.name}`" if one.value else f"`{one.name}`, per {one.unit}"
        lines.append([name, *(f"{value:.3f}" if value else "0" for value in rms)])
    header = [row_label(row) for row in study.rows]
    return markdown([f"constant, {study.arms[arm]}", *header], lines, frozenset(range(1, len(header) + 1)))


def cells(study: Study) -> str:
    """Every cell: published, simulated and refitted, and how far off each arm is."""
    lines = []
    for index, row in enumerate(study.rows):
        for column, tokens in enumerate(study.tokens):
            three = [us[index, column] for us in (study.published.us, study.simulated_us, study.refitted_us)]
            figures = [f"{candidate:.1f} ({baseline:.1f})" for baseline, candidate in three]
            off = [signed(100.0 * (three[1][arm] / three[0][arm] - 1.0), 1) for arm in (0, 1)]
            lines.append([row_label(row) if column == 0 else "", f"{tokens:,}", *figures, *off])
    header = [
        "layout, hidden, routing",
        "T",
        *(f"{kind}, us" for kind in ("published", "simulated", "refitted")),
        *(f"simulated against published: {arm}, %" for arm in study.arms),
    ]
    return markdown(header, lines, frozenset({1, 5, 6}))


def signed(value: float, digits: int) -> str:
    """A number with its sign; the minus is U+2212."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{MINUS}{text}" if value < 0 else f"+{text}"
