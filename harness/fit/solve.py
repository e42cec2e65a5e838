"""The fit itself: least squares over the logarithms of the constants, inside their bounds, on the fitted rows alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.optimize import least_squares, lsq_linear

from harness.fit.figures import Array
from harness.fit.settings import Free
from harness.records.fits import FitStep

Simulation = Callable[[Mapping[str, float]], Array]
"""What cells give at values of the free constants."""


@dataclass(frozen=True)
class Pull:
    """What holds constants where they start.

    Args:
        start: their values.
        pct: what doubling or halving one costs, as the residual of one figure.
    """

    start: Array
    pct: float

    @property
    def weight(self) -> float:
        """The residual per unit of log(constant)."""
        return self.pct / float(np.log(2.0))


class Target(Protocol):
    """Figures that a fit comes near to."""

    def residuals_pct(self, own_us: Array) -> Array:
        """How far round trips are from these figures, one number a figure."""
        ...

    def jacobian_pct(self, own_us: Array, slopes: Array) -> Array:
        """How `residuals_pct` moves with log of each constant, [figure, constant]."""
        ...

    def rms_pct(self, own_us: Array) -> float:
        """The rms error of the round trips."""
        ...


@dataclass(frozen=True)
class Start:
    """Where a fit starts, and what is known there and need not be simulated again.

    Args:
        values: of the free constants, in their order.
        us: round trips of the fitted cells.
        slopes: as `Problem.slopes` gives them.
    """

    values: Mapping[str, float]
    us: Array
    slopes: Array

    def pull(self, pct: float) -> Pull:
        """What holds the constants here; `pct` as in Pull."""
        return Pull(np.array(list(self.values.values())), pct)

    def us_or(self, evaluate: Simulation) -> Simulation:
        """The round trips as they are known here, elsewhere as `evaluate` simulates them."""
        return lambda values: self.us if values == self.values else evaluate(values)

    def slopes_or(self, simulate: Simulation) -> Simulation:
        """The slopes, likewise."""
        return lambda values: self.slopes if values == self.values else simulate(values)


@dataclass
class Problem:
    """A fit while it runs.

    Args:
        free: the constants.
        pull: what holds them.
        target: figures of the fitted cells; no other cell is known here.
        evaluate: round trips of the fitted cells at these values, in the shape of the target's.
        slopes: d log(us) / d log(constant) of the free constants there, [constant, ...].
        listen: told of each point that was tried.
        steps: the points tried so far.
    """

    free: Sequence[Free]
    pull: Pull
    target: Target
    evaluate: Simulation
    slopes: Simulation
    listen: Callable[[FitStep], None] = lambda step: None
    steps: list[FitStep] = field(default_factory=list)
    _last_us: Array = field(default_factory=lambda: np.zeros(0))

    def values(self, logs: Array) -> dict[str, float]:
        """The constants at a point, which is log(value / start) of each."""
        return {one.name: float(value) for one, value in zip(self.free, self.pull.start * np.exp(logs), strict=True)}

    def residuals(self, logs: Array) -> Array:
        """What the fit makes small, at a point: the figures' residuals, then the pulls."""
        self._last_us = self.evaluate(self.values(logs))
        found = np.concatenate([self.target.residuals_pct(self._last_us), self.pull.weight * logs])
        rms = self.target.rms_pct(self._last_us)
        values = tuple(self.values(logs).values())
        step = FitStep(evaluation=len(self.steps) + 1, rms_pct=rms, cost=float(found @ found), values=values)
        self.steps.append(step)
        self.listen(step)
        return found

    def jacobian(self, logs: Array) -> Array:
        figures = self.target.jacobian_pct(self._last_us, self.slopes(self.values(logs)))
        return np.concatenate([figures, self.pull.weight * np.eye(len(self.free))])


def line(step: FitStep) -> str:
    """A point that was tried, in words."""
    return f"evaluation {step.evaluation}: rms {step.rms_pct:.2f} %, cost {step.cost:.1f}"


def solve(problem: Problem, evaluations: int) -> FitStep:
    """The best point of a fit that may try so many."""
    least_squares(
        problem.residuals,
        np.zeros(len(problem.free)),
        jac=problem.jacobian,
        bounds=log_bounds(problem.free, problem.pull.start),
        max_nfev=evaluations,
        ftol=1e-3,
        xtol=1e-3,
        gtol=1e-6,
    )
    return min(problem.steps, key=lambda step: step.cost)


def linear(residuals: Array, jacobian: Array, bounds: tuple[Array, Array], weight: float) -> Array:
    """The point that makes linearised residuals and pulls least, inside the bounds, as log(value / start)."""
    matrix = np.concatenate([jacobian, weight * np.eye(jacobian.shape[1])])
    target = np.concatenate([-residuals, np.zeros(jacobian.shape[1])])
    return np.asarray(lsq_linear(matrix, target, bounds=bounds, method="bvls").x, dtype=np.float64)


def log_bounds(free: Sequence[Free], start: Array) -> tuple[Array, Array]:
    """The bounds of each constant as log(bound / start)."""
    lower = np.log(np.array([one.lower for one in free]) / start)
    return lower, np.log(np.array([one.upper for one in free]) / start)
