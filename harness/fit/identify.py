"""Which constants the fitted figures tell, from the Jacobian at the machine file's values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.fit.figures import Array
from harness.fit.study import Study

NO_BOUND = math.inf
LARGEST_LOG = math.log(1e3)
"""A standard error beyond a factor of a thousand is no bound."""
SMALLEST = 1e-12


@dataclass(frozen=True)
class Identification:
    """What some figures tell about some constants.

    Args:
        names: of the constants.
        ranges: log(upper / lower) of each.
        jacobian: of the round trips, in percent per unit of log(constant), [figure, constant].
        residuals: of the same figures, in percent.
        collinear: columns that correlate as much count as one.
        identified_pct: the standard error below which a constant counts as identified.
    """

    names: Sequence[str]
    ranges: Array
    jacobian: Array
    residuals: Array
    collinear: float
    identified_pct: float

    @cached_property
    def singular_values(self) -> Array:
        return np.asarray(np.linalg.svd(self.jacobian, compute_uv=False), dtype=np.float64)

    @cached_property
    def directions(self) -> Array:
        """What each singular value belongs to: log of the constants, of unit length, [direction, constant]."""
        return np.asarray(np.linalg.svd(self.jacobian, full_matrices=False)[2])

    @property
    def condition(self) -> float:
        """The largest singular value against the smallest, which is 0 where constants outnumber the figures."""
        smallest = float(self.singular_values[-1]) if self.freedom >= 0 else 0.0
        return float(self.singular_values[0]) / smallest if smallest > 0 else NO_BOUND

    @property
    def freedom(self) -> int:
        """Figures that are left after one for each constant."""
        return len(self.residuals) - len(self.names)

    @property
    def residual_pct(self) -> float:
        """The rms residual."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    @cached_property
    def errors_pct(self) -> Array:
        """Standard error of each constant, in percent of its value; infinite where the figures set no bound.

        The residuals count as independent errors of one size, as large as the machine file leaves them over the degrees
        of freedom: errors of a model are not independent, and a refit leaves less, so these are a scale and no bound.
        """
        if not math.isfinite(self.condition):
            return np.full(len(self.names), NO_BOUND)
        variance = (self.directions**2 / self.singular_values[:, None] ** 2).sum(axis=0)
        return self._percent(np.sqrt(variance))

    @cached_property
    def alone_pct(self) -> Array:
        """Standard error of each constant if all others were known."""
        return self._percent(1.0 / np.maximum(np.linalg.norm(self.jacobian, axis=0), SMALLEST))

    @cached_property
    def direction_errors_pct(self) -> Array:
        """Standard error along each direction."""
        return self._percent(1.0 / np.maximum(self.singular_values, SMALLEST))

    def _percent(self, per_sigma: Array) -> Array:
        """Standard errors in percent, from those in log per unit of the residuals' own."""
        if self.freedom < 1:
            return np.full(len(per_sigma), NO_BOUND)
        sigma = math.sqrt(float(self.residuals @ self.residuals) / self.freedom)
        logs = sigma * per_sigma
        return np.asarray(np.where(logs < LARGEST_LOG, 100.0 * np.expm1(np.minimum(logs, LARGEST_LOG)), NO_BOUND))

    @cached_property
    def effects_pct(self) -> Array:
        """What each constant moves the figures by, rms, over the whole of its range."""
        return np.asarray(np.sqrt(np.mean(self.jacobian**2, axis=0)) * self.ranges)

    @cached_property
    def correlation(self) -> Array:
        """Of columns: their cosine, for a common change of sign and size is what one constant does for another."""
        norms = np.linalg.norm(self.jacobian, axis=0)
        scaled = self.jacobian / np.where(norms > 0, norms, 1.0)
        return np.asarray(scaled.T @ scaled)

    @cached_property
    def groups(self) -> list[list[str]]:
        """Constants that are linked by columns which correlate as much as `collinear`, groups of two and more."""
        unseen, groups = set(range(len(self.names))), []
        while unseen:
            group, edge = set(), {min(unseen)}
            while edge:
                group |= edge
                linked = np.abs(self.correlation[sorted(edge)]).max(axis=0) >= self.collinear
                edge = {int(index) for index in np.flatnonzero(linked)} - group
            unseen -= group
            groups.append([self.names[index] for index in sorted(group)])
        return [group for group in groups if len(group) > 1]

    @cached_property
    def span_shares(self) -> Array:
        """Share of each column's length that the other columns together can make, 1 for all of it."""
        shares = []
        for index in range(len(self.names)):
            column, others = self.jacobian[:, index], np.delete(self.jacobian, index, axis=1)
            length = float(np.linalg.norm(column))
            rest = column - others @ np.linalg.lstsq(others, column, rcond=None)[0] if others.size else column
            shares.append(1.0 - (float(np.linalg.norm(rest)) / length) ** 2 if length > 0 else 1.0)
        return np.asarray(np.sqrt(np.clip(np.array(shares), 0.0, 1.0)))

    def verdict(self, index: int) -> str:
        """Whether a constant is identified, and if not, why not."""
        name = self.names[index]
        if self.effects_pct[index] < self.residual_pct:
            return "not identified: its whole range moves the figures by less than the residual"
        partners = [other for group in self.groups if name in group for other in group if other != name]
        if partners:
            return f"not identified: collinear with {', '.join(partners)}"
        if self.errors_pct[index] > self.identified_pct:
            return "not identified: the others together can stand in for it"
        return "identified"


def identify(study: Study) -> Identification:
    """What the fitted rows tell about the fitted constants; round trips alone, since the changes follow from them."""
    rows, names = study.fitted_rows, [one.name for one in study.free]
    latencies = study.num_latencies(rows)
    return Identification(
        names,
        np.array([math.log(one.upper / one.lower) for one in study.bounds]),
        study.jacobian_pct(rows, names)[:latencies],
        study.residuals_pct(rows)[:latencies],
        study.settings["collinear"],
        study.settings["identified_pct"],
    )
