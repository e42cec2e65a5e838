"""Refits on other rows, and of single constants, linearised at the machine file's values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.fit.figures import Array
from harness.fit.solve import Pull, linear, log_bounds
from harness.fit.study import Study


@dataclass(frozen=True)
class Refit:
    """A linearised refit of the fitted constants.

    Args:
        row: the row that it is about.
        now_pct: rms of the row's round trips, 100 log(simulated / published), as the machine file has them.
        without_pct, without_simulated_pct: after a refit on every row but this one, as predicted and as simulated.
        alone_pct, alone_simulated_pct: after a refit on this row alone.
        others_pct: rms of the fitted rows after the refit on this row alone, as predicted.
        at_bound: constants that go as far as they may in the refit on this row alone.
    """

    row: int
    now_pct: float
    without_pct: float
    without_simulated_pct: float
    alone_pct: float
    alone_simulated_pct: float
    others_pct: float
    at_bound: tuple[str, ...]


@dataclass(frozen=True)
class Move:
    """The one change of one constant that serves a row's round trips best, linearised.

    Args:
        name: the constant.
        change_pct: of its value.
        row_pct: rms of the row then.
        fitted_pct: rms of the fitted rows then.
    """

    name: str
    change_pct: float
    row_pct: float
    fitted_pct: float


def leave_one_out(study: Study) -> list[Refit]:
    """Each row left out of a refit, and each row alone in one."""
    rows = range(len(study.rows))
    return [_refit(study, row, [other for other in rows if other != row] or [row]) for row in rows]


def movers(study: Study, row: int) -> list[Move]:
    """Every constant that has a logarithm, by what it alone can do for a row; the best comes first."""
    found = [_move(study, row, one.name) for one in study.fit.constants if one.value > 0]
    return sorted(found, key=lambda move: move.row_pct)


def rms_after(study: Study, rows: Sequence[int], names: Sequence[str], logs: Array) -> float:
    """The rms of the rows' round trips once log of each constant changed by so much, linearised."""
    count = study.num_latencies(rows)
    after = study.residuals_pct(rows)[:count] + study.jacobian_pct(rows, names)[:count] @ logs
    return _rms(after)


def refit_residuals_pct(study: Study, row: int, alone: bool) -> Array:
    """A row's 100 log(simulated / published) after a refit on it alone or on all others: [tokens, arm]."""
    return np.asarray(100.0 * np.log(study.refit_us(row, alone) / study.published.us[row]))


def _rms(residuals: Array) -> float:
    return float(np.sqrt(np.mean(residuals**2)))


def strongest(study: Study, row: int, column: int) -> list[tuple[str, float]]:
    """Every constant with its slope in a cell, the mean over both arms; the largest comes first."""
    means = study.slopes[:, row, column].mean(axis=1)
    pairs = [(one.name, float(mean)) for one, mean in zip(study.fit.constants, means, strict=True) if one.value > 0]
    return sorted(pairs, key=lambda pair: -abs(pair[1]))


def _refit(study: Study, row: int, others: Sequence[int]) -> Refit:
    names = [one.name for one in study.free]
    without, alone = solution(study, others), solution(study, [row])
    return Refit(
        row,
        rms_after(study, [row], names, np.zeros(len(names))),
        rms_after(study, [row], names, without),
        _rms(refit_residuals_pct(study, row, alone=False)),
        rms_after(study, [row], names, alone),
        _rms(refit_residuals_pct(study, row, alone=True)),
        rms_after(study, study.fitted_rows, names, alone),
        tuple(name for name, log, low, high in zip(names, alone, *_bounds(study), strict=True) if log in (low, high)),
    )


def solution(study: Study, rows: Sequence[int]) -> Array:
    """The linearised fit of the fitted constants on these rows, as log(value / value in the machine file)."""
    names = [one.name for one in study.free]
    weight = Pull(_start(study), study.settings["pull_pct"]).weight
    return linear(study.residuals_pct(rows), study.jacobian_pct(rows, names), _bounds(study), weight)


def _start(study: Study) -> Array:
    return np.array([one.value for one in study.free])


def _bounds(study: Study) -> tuple[Array, Array]:
    """The bounds of the fitted constants, as far as a linearised refit reaches."""
    reach = math.log(study.settings["reach"])
    lower, upper = log_bounds(study.bounds, _start(study))
    return np.maximum(lower, -reach), np.minimum(upper, reach)


def _move(study: Study, row: int, name: str) -> Move:
    count = study.num_latencies([row])
    column = study.jacobian_pct([row], [name])[:count, 0]
    length = float(column @ column)
    best = -float(column @ study.residuals_pct([row])[:count]) / length if length > 0 else 0.0
    low, high = _reach(study, name)
    log = np.array([min(max(best, low), high)])
    change = 100.0 * math.expm1(float(log[0]))
    return Move(name, change, rms_after(study, [row], [name], log), rms_after(study, study.fitted_rows, [name], log))


def _reach(study: Study, name: str) -> tuple[float, float]:
    """How far a constant may go, as logarithms."""
    for index, one in enumerate(study.free):
        if one.name == name:
            low, high = _bounds(study)
            return float(low[index]), float(high[index])
    reach = math.log(study.settings["reach"])
    return -reach, reach
