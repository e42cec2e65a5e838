"""The search: least squares over logarithms of the constants, replayed from the cells that are simulated already.

It is deterministic. So it runs from its beginning every time, takes each cell that it asks for from the memo, and where
one is lacking says which: those are the next to be simulated.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares, lsq_linear

from harness.errors import HarnessError
from harness.records.envelope import OK
from harness.studies.fit.fit import Array, Constant, Fit, Settings, Step, jacobian_pct, residuals_pct, rms

LEAST = 1e-99
"""A bound that none of its constants comes to."""


@dataclass(frozen=True)
class Trial:
    """One simulated cell.

    Args:
        cell: its index among those of the settings.
        num_exchanges: simulated ones.
        changes: constants that differ from the machine file, by name and value, in order of name.
    """

    cell: int
    num_exchanges: int
    changes: tuple[tuple[str, float], ...] = ()


class LackingError(HarnessError):
    """The search needs cells that are not simulated.

    Args:
        trials: the cells.
    """

    def __init__(self, trials: Sequence[Trial]):
        super().__init__(f"fit: expected its cells, received none of {len(trials)} of them.", "Run the fit again.")
        self.trials = trials


def solved(settings: Settings, done: Sequence[Any]) -> Fit:
    """All cells and their slopes as the file has them, refits of single rows, the search, and all cells with its end.

    Args:
        settings: what the fit is told.
        done: rows of cells: `latency_us` is the figure of one, `samples_us` are the round trips of all its exchanges on
            the first Attention rank, then of those on the next.

    Raises:
        LackingError: a cell that it needs next is not there.
    """
    memo, names = Memo(settings, {row.trial: row for row in done if row.status == OK}), settings.names
    every, sloped = range(len(settings.cells)), settings.sloped()
    memo.take([*memo.timed(every, {}), *memo.stepped(names, sloped, {})])
    slopes = np.full((2, len(names), len(every)), np.nan)
    slopes[..., sloped] = memo.slopes(names, sloped, {})
    fit = Fit(settings, {settings.target: settings.figures(every)[0], "simulated": memo.us(every, {})}, *slopes)
    refits = _refits(memo, fit) if settings.target == "published" else {}
    steps = _search(memo)
    found = dict(zip(settings.free, min(steps, key=lambda step: step.cost).values, strict=True))
    return replace(
        fit,
        us={**fit.us, "refitted": memo.us(every, found)},
        steps=tuple(steps),
        found=found,
        refits=refits,
        native_digest=", ".join(sorted({str(one.native_digest) for one in memo.known.values()})),
    )


@dataclass(frozen=True)
class Memo:
    """The cells that are known."""

    settings: Settings
    known: Mapping[Trial, Any]

    def take(self, trials: Sequence[Trial]) -> list[Any]:
        """What cells gave.

        Raises:
            LackingError: some are not known.
        """
        if lacking := [one for one in dict.fromkeys(trials) if one not in self.known]:
            raise LackingError(lacking)
        return [self.known[one] for one in trials]

    def timed(self, cells: Iterable[int], values: Mapping[str, float]) -> list[Trial]:
        """Cells with these constants."""
        return [Trial(at, self.settings.num_exchanges, self._changes(values)) for at in cells]

    def us(self, cells: Iterable[int], values: Mapping[str, float]) -> Array:
        """Their round trips."""
        return np.array([one.latency_us for one in self.take(self.timed(cells, values))], dtype=np.float64)

    def stepped(self, names: Sequence[str], cells: Sequence[int], values: Mapping[str, float]) -> list[Trial]:
        """Cells with these constants, then with each of the named ones stepped as well."""
        within = [(at, self.settings.route_tokens // max(1, self.settings.cells[at].tokens)) for at in cells]
        changes = [values, *({**values, name: self._step(name, values)[0]} for name in names)]
        most = self.settings.slope_exchanges
        return [Trial(at, min(most, max(1, one)), self._changes(values)) for values in changes for at, one in within]

    def slopes(self, names: Sequence[str], cells: Sequence[int], values: Mapping[str, float]) -> Array:
        """Slopes and their standard errors, [2, constant, cell]: each exchange against itself on the same routes."""
        rows = self.take(self.stepped(names, cells, values))
        found = [np.array(one.samples_us).reshape(-1, one.num_exchanges) for one in rows]
        before, *after = (found[at : at + len(cells)] for at in range(0, len(found), len(cells)))
        both = [
            [slope_of(*pair, self._step(name, values)[1]) for pair in zip(before, stepped, strict=True)]
            for name, stepped in zip(names, after, strict=True)
        ]
        return np.moveaxis(np.array(both), 2, 0)

    def _changes(self, values: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
        return tuple(sorted(values.items() - self.settings.values.items()))

    def _step(self, name: str, values: Mapping[str, float]) -> tuple[float, float]:
        """A constant set beside its value, and what log(us) is divided by: the step in log(constant).

        One that is 0 has no logarithm: its slope is per unit.
        """
        value, factor = values.get(name, self.settings.values[name]), 1.0 + self.settings.step
        stepped = value / factor if name in self.settings.step_down else value * factor
        return (stepped, math.log(stepped / value)) if value else (1.0, 1.0)


def slope_of(before: Array, after: Array, length: float) -> tuple[float, float]:
    """The slope over ranks and exchanges, and its standard error over exchanges, of samples [rank, exchange]."""
    each = np.log(after / before).mean(axis=0) / length
    error = float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else math.nan
    return float(each.mean()), error


def _search(memo: Memo) -> list[Step]:
    """The points that the search tries on the fitted cells alone; no other cell is known to it."""
    settings, steps = memo.settings, list[Step]()
    cells, names, weight = settings.where(fitted=True), settings.free, pull(settings)
    figures, free = settings.figures(cells), sorted(settings.fitted, key=lambda one: names.index(one.name))

    def residuals(logs: Array) -> Array:
        values = _moved(free, logs)
        own = memo.us(cells, values)
        found = np.concatenate([residuals_pct(figures, own), weight * logs])
        steps.append(Step(100.0 * rms(own / figures[0] - 1.0), float(found @ found), tuple(values.values())))
        return found

    def jacobian(logs: Array) -> Array:
        values = _moved(free, logs)
        moved = jacobian_pct(figures, memo.us(cells, values), memo.slopes(names, cells, values)[0])
        return np.concatenate([moved, weight * np.eye(len(names))])

    least_squares(
        residuals,
        np.zeros(len(names)),
        jac=jacobian,
        bounds=log_bounds(free),
        max_nfev=settings.evaluations,
        ftol=1e-3,
        xtol=1e-3,
        gtol=1e-6,
    )
    return steps


def _moved(constants: Sequence[Constant], logs: Array) -> dict[str, float]:
    """Values of constants that have moved by so much in log."""
    return {one.name: one.value * by for one, by in zip(constants, np.exp(logs).tolist(), strict=True)}


def _refits(memo: Memo, fit: Fit) -> dict[tuple[int, bool], Array]:
    """Each row with the constants of a linearised refit on it alone, and of one on all others."""
    asked = {
        (row, alone): (fit.settings.where(row=row), _moved(fit.settings.fitted, solution(fit, row, alone)))
        for row, alone in itertools.product(range(len(fit.settings.series)), (False, True))
    }
    memo.take([trial for one in asked.values() for trial in memo.timed(*one)])
    return {place: memo.us(*one) for place, one in asked.items()}


def solution(fit: Fit, row: int, alone: bool) -> Array:
    """The linearised fit on a row alone or on all others, as log(value / value in the machine file)."""
    settings, fitted = fit.settings, fit.settings.fitted
    cells = [at for at, cell in enumerate(settings.cells) if (cell.row == row) is alone] or settings.where(row=row)
    figures, us = settings.figures(cells), fit.us["simulated"][cells]
    jacobian = jacobian_pct(figures, us, fit.slopes_of([one.name for one in fitted], cells))
    matrix = np.concatenate([jacobian, pull(settings) * np.eye(len(fitted))])
    goal = np.concatenate([-residuals_pct(figures, us), np.zeros(len(fitted))])
    return np.asarray(lsq_linear(matrix, goal, bounds=reach(settings, fitted), method="bvls").x, dtype=np.float64)


def reach(settings: Settings, constants: Sequence[Constant]) -> Array:
    """How far constants may go in a linearised refit, [2, constant], as logarithms."""
    return np.clip(log_bounds(constants), -math.log(settings.reach), math.log(settings.reach))


def log_bounds(constants: Sequence[Constant]) -> Array:
    """The bounds of each constant as log(bound / value), [2, constant]."""
    return np.log([[max(one.lower, LEAST) / one.value, one.upper / one.value] for one in constants]).T


def pull(settings: Settings) -> float:
    """What holds the constants where they start: the residual per unit of log(constant)."""
    return settings.pull_pct / math.log(2.0)
