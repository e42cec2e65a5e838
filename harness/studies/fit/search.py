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
from harness.studies.fit.fit import Array, Constant, Figures, Fit, Settings, Step


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


def solve(settings: Settings, known: Mapping[Trial, Any]) -> Fit:
    """All cells and their slopes as the file has them, refits of single rows, the search, and all cells with its end.

    Args:
        settings: what the fit is told.
        known: what cells gave: `latency_us` is the figure of one, `samples_us` are the round trips of all its exchanges
            on the first Attention rank, then of those on the next.

    Raises:
        LackingError: a cell that it needs next is not known.
    """
    memo, names = Memo(settings, known), settings.names
    every, sloped = range(len(settings.cells)), settings.sloped()
    memo.take([*memo.timed(every, {}), *memo.stepped(names, sloped, {})])
    slopes = np.full((2, len(names), len(every)), np.nan)
    slopes[..., sloped] = memo.slopes(names, sloped, {})
    fit = Fit(settings, {settings.target: Figures.of(settings, every).us, "simulated": memo.us(every, {})}, *slopes)
    fit = replace(fit, refits=_refits(memo, fit) if settings.target == "published" else {})
    steps = _search(memo)
    found = dict(zip(settings.free, min(steps, key=lambda step: step.cost).values, strict=True))
    digests = ", ".join(sorted({str(one.native_digest) for one in known.values()}))
    return replace(
        fit,
        us={**fit.us, "refitted": memo.us(every, found)},
        steps=tuple(steps),
        found=found,
        native_digest=digests,
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
        return self._trials(values, ((cell, self.settings.num_exchanges) for cell in cells))

    def us(self, cells: Iterable[int], values: Mapping[str, float]) -> Array:
        """Their round trips."""
        return np.array([one.latency_us for one in self.take(self.timed(cells, values))], dtype=np.float64)

    def stepped(self, names: Sequence[str], cells: Sequence[int], values: Mapping[str, float]) -> list[Trial]:
        """Cells with these constants, then with each of the named ones stepped as well."""
        most, tokens = self.settings.route_tokens, {cell: self.settings.cells[cell].tokens for cell in cells}
        counts = [(at, min(self.settings.slope_exchanges, max(1, most // max(1, tokens[at])))) for at in cells]
        changes = [values, *({**values, name: self._step(name, values)[0]} for name in names)]
        return [trial for change in changes for trial in self._trials(change, counts)]

    def slopes(self, names: Sequence[str], cells: Sequence[int], values: Mapping[str, float]) -> Array:
        """Slopes and their standard errors, [2, constant, cell]: each exchange against itself on the same routes."""
        found = [
            np.array(one.samples_us).reshape(-1, one.num_exchanges)
            for one in self.take(self.stepped(names, cells, values))
        ]
        before, *after = (found[at : at + len(cells)] for at in range(0, len(found), len(cells)))
        lengths = [self._step(name, values)[1] for name in names]
        both = [
            [slope_of(*pair, length) for pair in zip(before, stepped, strict=True)]
            for stepped, length in zip(after, lengths, strict=True)
        ]
        return np.moveaxis(np.array(both), 2, 0)

    def _trials(self, values: Mapping[str, float], counts: Iterable[tuple[int, int]]) -> list[Trial]:
        known = self.settings.values
        changes = tuple(sorted((name, value) for name, value in values.items() if value != known[name]))
        return [Trial(cell, count, changes) for cell, count in counts]

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
    cells, names = settings.where(fitted=True), settings.free
    free = sorted(settings.fitted, key=lambda one: names.index(one.name))
    figures, weight, start = Figures.of(settings, cells), pull(settings), np.array([one.value for one in free])

    def values(logs: Array) -> dict[str, float]:
        return {name: float(value) for name, value in zip(names, start * np.exp(logs), strict=True)}

    def residuals(logs: Array) -> Array:
        own = memo.us(cells, values(logs))
        found = np.concatenate([figures.residuals_pct(own), weight * logs])
        steps.append(Step(figures.rms_pct(own), float(found @ found), tuple(values(logs).values())))
        return found

    def jacobian(logs: Array) -> Array:
        slopes, _ = memo.slopes(names, cells, values(logs))
        moved = figures.jacobian_pct(memo.us(cells, values(logs)), slopes)
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


def _refits(memo: Memo, fit: Fit) -> dict[tuple[int, bool], Array]:
    """Each row with the constants of a linearised refit on it alone, and of one on all others."""
    told, rows = fit.settings, range(len(fit.settings.series))
    asked = {
        place: (
            told.where(row=place[0]),
            {
                one.name: one.value * float(by)
                for one, by in zip(told.fitted, np.exp(solution(fit, *place)), strict=True)
            },
        )
        for place in itertools.product(rows, (False, True))
    }
    memo.take([trial for one in asked.values() for trial in memo.timed(*one)])
    return {place: memo.us(*one) for place, one in asked.items()}


def solution(fit: Fit, row: int, alone: bool) -> Array:
    """The linearised fit on a row alone or on all others, as log(value / value in the machine file)."""
    settings, names = fit.settings, [one.name for one in fit.settings.fitted]
    others = [at for at, cell in enumerate(settings.cells) if cell.row != row]
    cells = settings.where(row=row) if alone or not others else others
    figures, us = Figures.of(settings, cells), fit.us["simulated"][cells]
    jacobian = figures.jacobian_pct(us, fit.slopes_of(names, cells))
    matrix = np.concatenate([jacobian, pull(settings) * np.eye(len(names))])
    goal = np.concatenate([-figures.residuals_pct(us), np.zeros(len(names))])
    return np.asarray(lsq_linear(matrix, goal, bounds=reach(settings), method="bvls").x, dtype=np.float64)


def reach(settings: Settings) -> tuple[Array, Array]:
    """How far the fitted constants may go in a linearised refit, as logarithms."""
    most, (lower, upper) = math.log(settings.reach), log_bounds(settings.fitted)
    return np.maximum(lower, -most), np.minimum(upper, most)


def log_bounds(free: Sequence[Constant]) -> tuple[Array, Array]:
    """The bounds of each constant as log(bound / value)."""
    values = np.array([one.value for one in free])
    return np.log(np.array([one.lower for one in free]) / values), np.log(
        np.array([one.upper for one in free]) / values
    )


def pull(settings: Settings) -> float:
    """What holds the constants where they start: the residual per unit of log(constant)."""
    return settings.pull_pct / float(np.log(2.0))
