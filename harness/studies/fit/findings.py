"""What figures tell about constants, from the Jacobian at the machine file's values, and the tables that say it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.csgraph import connected_components

from harness.report.markdown import ABSENT, signed
from harness.studies.fit.fit import Array, Fit, rms
from harness.studies.fit.search import reach, solution
from harness.studies.fit.tables import MOST_MOVERS, NO_BOUND, ROW, Line, lined

LARGEST_LOG = math.log(1e3)
"""A standard error beyond a factor of a thousand is no bound."""
SMALLEST = 1e-12
LEAST_SHARE = 0.3
"""Of a direction of unit length: constants with a smaller part in it are left out."""


@dataclass(frozen=True)
class Identification:
    """What the fitted cells of a fit tell about its constants; round trips alone, since changes follow from them."""

    fit: Fit

    @cached_property
    def names(self) -> list[str]:
        return [one.name for one in self.fit.settings.fitted]

    @cached_property
    def residuals(self) -> Array:
        """Of the fitted cells, in percent."""
        return self.fit.logs_pct(self.fit.settings.where(fitted=True))

    @cached_property
    def jacobian(self) -> Array:
        """In percent per unit of log(constant), [cell, constant]."""
        return 100.0 * self.fit.slopes_of(self.names, self.fit.settings.where(fitted=True)).T

    @cached_property
    def singular_values(self) -> Array:
        return np.asarray(np.linalg.svd(self.jacobian, compute_uv=False), dtype=np.float64)

    @cached_property
    def directions(self) -> Array:
        """What each singular value belongs to: log of the constants, of unit length, [direction, constant]."""
        return np.linalg.svd(self.jacobian, full_matrices=False)[2]

    @property
    def condition(self) -> float:
        """The largest singular value against the smallest, which is 0 where constants outnumber the figures."""
        smallest = float(self.singular_values[-1]) if self.freedom >= 0 else 0.0
        return float(self.singular_values[0]) / smallest if smallest > 0 else math.inf

    @property
    def freedom(self) -> int:
        """Figures that are left after one for each constant."""
        return len(self.residuals) - len(self.names)

    @cached_property
    def errors_pct(self) -> Array:
        """Standard error of each constant, in percent of its value; infinite where the figures set no bound.

        The residuals count as independent errors of one size, as large as the machine file leaves them over the degrees
        of freedom: errors of a model are not independent, and a refit leaves less, so these are a scale and no bound.
        """
        if not math.isfinite(self.condition):
            return np.full(len(self.names), math.inf)
        return self._percent(np.sqrt((self.directions**2 / self.singular_values[:, None] ** 2).sum(axis=0)))

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
            return np.full(len(per_sigma), math.inf)
        logs = math.sqrt(float(self.residuals @ self.residuals) / self.freedom) * per_sigma
        return np.asarray(np.where(logs < LARGEST_LOG, 100.0 * np.expm1(np.minimum(logs, LARGEST_LOG)), math.inf))

    @cached_property
    def effects_pct(self) -> Array:
        """What each constant moves the figures by, rms, over the whole of its range."""
        ranges = [math.log(one.upper / one.lower) for one in self.fit.settings.fitted]
        return np.asarray(np.sqrt(np.mean(self.jacobian**2, axis=0)) * ranges)

    @cached_property
    def correlation(self) -> Array:
        """Of columns: their cosine, for a common change of sign and size is what one constant does for another."""
        scaled = self.jacobian / np.maximum(np.linalg.norm(self.jacobian, axis=0), SMALLEST)
        return np.asarray(scaled.T @ scaled)

    @cached_property
    def groups(self) -> list[list[str]]:
        """Constants that are linked by columns which correlate as much as `collinear`, groups of two and more."""
        count, owners = connected_components(np.abs(self.correlation) >= self.fit.settings.collinear)
        found = [[name for name, own in zip(self.names, owners, strict=True) if own == at] for at in range(count)]
        return [group for group in found if len(group) > 1]

    @cached_property
    def span_shares(self) -> Array:
        """Share of each column's length that the other columns together can make, 1 for all of it."""
        shares = np.array([self._share(index) for index in range(len(self.names))])
        return np.asarray(np.sqrt(np.clip(shares, 0.0, 1.0)))

    def _share(self, index: int) -> float:
        column, others = self.jacobian[:, index], np.delete(self.jacobian, index, axis=1)
        rest = column - others @ np.linalg.lstsq(others, column, rcond=None)[0] if others.size else column
        length = float(np.linalg.norm(column))
        return 1.0 - (float(np.linalg.norm(rest)) / length) ** 2 if length > 0 else 1.0

    def verdict(self, index: int) -> str:
        """Whether a constant is identified, and if not, why not."""
        name = self.names[index]
        if self.effects_pct[index] < rms(self.residuals):
            return "not identified: its whole range moves the figures by less than the residual"
        partners = [other for group in self.groups if name in group for other in group if other != name]
        if partners:
            return f"not identified: collinear with {', '.join(partners)}"
        if self.errors_pct[index] > self.fit.settings.identified_pct:
            return "not identified: the others together can stand in for it"
        return "identified"


@dataclass(frozen=True)
class Move:
    """The one change of one constant that serves some cells best, linearised; nothing is fitted to them.

    Args:
        name: the constant.
        change_pct: of its value.
        rms_pct: of those cells then, as 100 log of the ratio.
        fitted_pct: of the fitted cells then.
    """

    name: str
    change_pct: float
    rms_pct: float
    fitted_pct: float


def movers(fit: Fit, cells: Sequence[int]) -> list[Move]:
    """Every constant that has a logarithm, by what it alone could do for cells; the best comes first."""
    settings, most = fit.settings, math.log(fit.settings.reach)
    bounds = {one.name: ends for one, *ends in zip(settings.fitted, *reach(settings), strict=True)}
    found = []
    for name in (name for name in settings.names if settings.values[name] > 0):
        column, (low, high) = 100.0 * fit.slopes_of([name], cells)[0], bounds.get(name, (-most, most))
        length = float(column @ column)
        log = min(max(-float(column @ fit.logs_pct(cells)) / length, low), high) if length > 0 else 0.0
        then = [after(fit, some, [name], np.array([log])) for some in (cells, settings.where(fitted=True))]
        found.append(Move(name, 100.0 * math.expm1(log), *then))
    return sorted(found, key=lambda move: move.rms_pct)


def after(fit: Fit, cells: Sequence[int], names: Sequence[str], logs: Array) -> float:
    """The rms of cells, 100 log of the ratio, once log of each constant has changed by so much, linearised."""
    return rms(fit.logs_pct(cells) + 100.0 * logs @ fit.slopes_of(names, cells))


def refits(fit: Fit, row: int) -> dict[str, float]:
    """What refits on all rows but one, and on this one alone, leave of its errors, by the words of a table's header."""
    settings, names, own = fit.settings, [one.name for one in fit.settings.fitted], fit.settings.where(row=row)
    alone, us = solution(fit, row, True), fit.us[settings.target][own]
    return {
        "simulated: rms, %": rms(fit.logs_pct(own)),
        "row left out, linearised: rms, %": after(fit, own, names, solution(fit, row, False)),
        "row left out, simulated: rms, %": rms(100.0 * np.log(fit.refits[row, False] / us)),
        "row alone, linearised: rms, %": after(fit, own, names, alone),
        "row alone, simulated: rms, %": rms(100.0 * np.log(fit.refits[row, True] / us)),
        "row alone, linearised: rms of the fitted rows, %": after(fit, settings.where(fitted=True), names, alone),
    }


def at_bound(fit: Fit, row: int) -> list[str]:
    """Constants that go as far as they may in a refit on one row alone."""
    found = zip(fit.settings.fitted, solution(fit, row, True), *reach(fit.settings), strict=True)
    return [one.name for one, log, low, high in found if log in (low, high)]


def constants(fit: Fit, found: Identification) -> str:
    """Every fitted constant: its values, its standard error, and whether the figures tell it."""
    published = fit.settings.target == "published"
    return lined(
        {
            "constant": f"`{one.name}`",
            "unit": one.unit,
            "machine file": f"{one.value:g}",
            "refitted": f"{fit.found[one.name]:.4g}",
            "bounds": f"{one.lower:g} to {one.upper:g}",
            "standard error, %": bound(found.errors_pct[at]),
            **({"if the others were known, %": bound(found.alone_pct[at])} if published else {}),
            "effect of its range, rms %": f"{found.effects_pct[at]:.1f}",
            **({"share that the others can make": f"{found.span_shares[at]:.3f}"} if published else {}),
            "verdict": found.verdict(at),
            **({} if published else {"measured in part": one.reason or ABSENT}),
        }
        for at, one in enumerate(fit.settings.fitted)
    )


def bound(value: float) -> str:
    """A standard error; one that exceeds a factor of ten is said as such."""
    return NO_BOUND if not math.isfinite(value) else "over 900" if value > 900 else f"{value:.0f}"


def directions(found: Identification) -> str:
    """The singular values of the Jacobian, the largest first, and what the constants do together along each."""
    return lined(
        {
            "direction": str(at + 1),
            "singular value, % per unit of log": f"{value:.2f}",
            "standard error along it, %": bound(found.direction_errors_pct[at]),
            "log of the constants": _together(found, found.directions[at]),
        }
        for at, value in enumerate(found.singular_values)
    )


def _together(found: Identification, parts: Array) -> str:
    """The constants that make most of a direction; its first one counts as up."""
    order = [int(one) for one in np.argsort(-np.abs(parts)) if abs(parts[one]) >= LEAST_SHARE]
    up = parts * np.sign(parts[int(np.argmax(np.abs(parts)))])
    return ", ".join(f"{signed(float(up[one]), 2)} `{found.names[one]}`" for one in order)


def left_out(fit: Fit) -> str:
    """Linearised refits that leave a row out, or have it alone."""
    return lined(
        {
            ROW: fit.settings.label(row),
            **{name: f"{value:.1f}" for name, value in refits(fit, row).items()},
            "as far as it may, row alone": ", ".join(f"`{name}`" for name in at_bound(fit, row)) or ABSENT,
        }
        for row in range(len(fit.settings.series))
    )


def moves(fit: Fit) -> str:
    """For each row the constants that alone would serve it best."""
    header = "linearised: its change, %", "the row then: rms, %", "the fitted rows then: rms, %"
    return lined(
        {ROW: fit.settings.label(row) if at == 0 else "", **_move(move, *header)}
        for row in range(len(fit.settings.series))
        for at, move in enumerate(movers(fit, fit.settings.where(row=row))[:MOST_MOVERS])
    )


def asked_for(fit: Fit) -> str:
    """The constants whose change alone would serve the held-out arm best, in the rows that the fit has slopes of."""
    fitted, held_out = fit.settings.arms
    names = f"{held_out} of the fitted rows then: rms, %", f"the fitted cells of {fitted} then: rms, %"
    cells = [at for at in fit.settings.sloped() if fit.settings.cells[at].arm == 1]
    return lined(_move(one, "its change, %", *names) for one in movers(fit, cells)[: 2 * MOST_MOVERS] if cells)


def _move(move: Move, change: str, own: str, fitted: str) -> Line:
    return {
        "constant": f"`{move.name}`",
        change: signed(move.change_pct, 0),
        own: f"{move.rms_pct:.1f}",
        fitted: f"{move.fitted_pct:.1f}",
    }
