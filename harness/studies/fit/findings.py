"""What figures tell about constants, from the Jacobian at the machine file's values, and the tables that say it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from harness.report.markdown import ABSENT, lined, signed
from harness.studies.fit.fit import NO_EFFECT, Array, Fit, rms
from harness.studies.fit.search import log_bounds, reach, solution
from harness.studies.fit.tables import MOST_MOVERS, ROW

LARGEST_LOG = math.log(1e3)
"""A standard error beyond a factor of a thousand is no bound."""
SMALLEST = 1e-12
LEAST_SHARE = 0.3
"""Of a direction of unit length: constants with a smaller part in it are left out."""


@dataclass(frozen=True)
class Identification:
    """What the fitted cells of a fit tell about its constants; round trips alone, since changes follow from them.

    Args:
        fit: whose.
        residuals: of the fitted cells, in percent.
        freedom: figures that are left after one for each constant.
        condition: the largest singular value of the Jacobian against the smallest, which is 0 where constants outnumber
            the figures.
        constants: by name: standard error, also if all others were known, and rms effect on the figures over the whole
            of its range, in percent; share of its column's length that the other columns together can make.
        directions: by singular value, the largest first: log of the constants, of unit length.
        direction_errors_pct: standard error along each.
        correlation: of columns: their cosine, for a common change of sign and size is what one constant does for
            another.
    """

    fit: Fit
    residuals: Array
    freedom: int
    condition: float
    constants: pd.DataFrame
    directions: pd.DataFrame
    direction_errors_pct: Array
    correlation: pd.DataFrame

    @cached_property
    def groups(self) -> list[list[str]]:
        """Constants that are linked by columns which correlate as much as `collinear`, groups of two and more."""
        count, owners = connected_components(self.correlation.abs().to_numpy() >= self.fit.settings.collinear)
        found = [self.correlation.index[owners == at].tolist() for at in range(count)]
        return [group for group in found if len(group) > 1]

    def verdict(self, name: str) -> str:
        """Whether a constant is identified, and if not, why not."""
        told = self.constants.loc[name]
        partners = [other for group in self.groups if name in group for other in group if other != name]
        faults = {
            "its whole range moves the figures by less than the residual": told.effect_pct < rms(self.residuals),
            f"collinear with {', '.join(partners)}": bool(partners),
            "the others together can stand in for it": told.error_pct > self.fit.settings.identified_pct,
        }
        return next((f"not identified: {why}" for why, fault in faults.items() if fault), "identified")


def identification(fit: Fit) -> Identification:
    """From the Jacobian at the machine file's values, in percent per unit of log(constant), [cell, constant].

    The residuals count as independent errors of one size, as large as the machine file leaves them over the degrees of
    freedom: errors of a model are not independent, and a refit leaves less, so standard errors are a scale.
    """
    cells, names = fit.settings.where(fitted=True), [one.name for one in fit.settings.fitted]
    residuals, jacobian = fit.logs_pct(cells), 100.0 * fit.slopes_of(names, cells).T
    _, values, directions = np.linalg.svd(jacobian, full_matrices=False)
    freedom, lengths = len(cells) - len(names), np.maximum(np.linalg.norm(jacobian, axis=0), SMALLEST)
    condition = float(values[0] / values[-1]) if freedom >= 0 and values[-1] > 0 else math.inf
    sigma = math.sqrt(float(residuals @ residuals) / freedom) if freedom > 0 else math.inf
    bounded = np.maximum(values, SMALLEST)
    errors = np.maximum(np.linalg.norm(directions / bounded[:, None], axis=0), SMALLEST)
    columns = {
        "error_pct": _percent(sigma * errors),
        "alone_pct": _percent(sigma / lengths),
        "effect_pct": np.sqrt(np.mean(jacobian**2, axis=0)) * np.diff(log_bounds(fit.settings.fitted), axis=0)[0],
        "share": [_share(jacobian, at) for at in range(len(names))],
    }
    correlation = pd.DataFrame(jacobian.T @ jacobian / np.outer(lengths, lengths), names, names)
    return Identification(
        fit,
        residuals,
        freedom,
        condition,
        pd.DataFrame(columns, names),
        pd.DataFrame(directions, values, names),
        _percent(sigma / bounded),
        correlation,
    )


def _percent(logs: Any) -> Array:
    """Standard errors in percent, from those in log; infinite where they are no bound."""
    return np.asarray(np.where(logs < LARGEST_LOG, 100.0 * np.expm1(np.minimum(logs, LARGEST_LOG)), math.inf))


def _share(jacobian: Array, at: int) -> float:
    """Share of a column's length that the other columns together can make, 1 for all of it or for no length."""
    column, others = jacobian[:, at], np.delete(jacobian, at, axis=1)
    length = float(np.linalg.norm(column))
    return float(np.linalg.norm(others @ np.linalg.pinv(others) @ column)) / length if length > 0 else 1.0


def movers(fit: Fit, cells: Sequence[int]) -> pd.DataFrame:
    """What each constant alone could do for cells, linearised; nothing is fitted to them.

    Returns:
        For every constant that has a logarithm, the best first: its `name`, the change of its value that serves the
        cells best (`change_pct`), and then the rms of 100 log of the ratio, of the cells (`rms_pct`) and of the fitted
        ones (`fitted_pct`).
    """
    constants = [one for one in fit.settings.constants if one.kind != NO_EFFECT and one.value > 0]
    columns = 100.0 * fit.slopes_of([one.name for one in constants], cells)
    best = -columns @ fit.logs_pct(cells) / np.maximum((columns**2).sum(axis=1), SMALLEST)
    logs = np.clip(best, *reach(fit.settings, constants))
    found = pd.DataFrame({"name": [one.name for one in constants], "change_pct": 100.0 * np.expm1(logs)})
    for column, some in {"rms_pct": cells, "fitted_pct": fit.settings.where(fitted=True)}.items():
        found[column] = [after(fit, some, [name], logs[[at]]) for at, name in enumerate(found.name)]
    return found.sort_values("rms_pct", kind="stable")


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
    found = zip(fit.settings.fitted, solution(fit, row, True), *reach(fit.settings, fit.settings.fitted), strict=True)
    return [f"`{one.name}`" for one, log, low, high in found if log in (low, high)]


def constants(found: Identification) -> str:
    """Every fitted constant: its values, its standard error, and whether the figures tell it."""
    published = found.fit.settings.target == "published"
    return lined(
        {
            "constant": f"`{one.name}`",
            "unit": one.unit,
            "machine file": f"{one.value:g}",
            "refitted": f"{found.fit.found[one.name]:.4g}",
            "bounds": f"{one.lower:g} to {one.upper:g}",
            "standard error, %": bound(found.constants.error_pct[one.name]),
            **({"if the others were known, %": bound(found.constants.alone_pct[one.name])} if published else {}),
            "effect of its range, rms %": f"{found.constants.effect_pct[one.name]:.1f}",
            **({"share that the others can make": f"{found.constants.share[one.name]:.3f}"} if published else {}),
            "verdict": found.verdict(one.name),
            **({} if published else {"measured in part": one.reason or ABSENT}),
        }
        for one in found.fit.settings.fitted
    )


def bound(value: float) -> str:
    """A standard error; one that exceeds a factor of ten is said as such."""
    return "no bound" if not math.isfinite(value) else "over 900" if value > 900 else f"{value:.0f}"


def directions(found: Identification) -> str:
    """The singular values of the Jacobian, the largest first, and what the constants do together along each."""
    lines = zip(found.directions.iterrows(), found.direction_errors_pct, strict=True)
    return lined(
        {
            "direction": str(number),
            "singular value, % per unit of log": f"{value:.2f}",
            "standard error along it, %": bound(error),
            "log of the constants": _together(parts),
        }
        for number, ((value, parts), error) in enumerate(lines, 1)
    )


def _together(parts: pd.Series) -> str:
    """The constants that make most of a direction; its first one counts as up."""
    order = parts[parts.abs() >= LEAST_SHARE].sort_values(key=abs, ascending=False)
    return ", ".join(f"{signed(float(one), 2)} `{name}`" for name, one in (order * np.sign(order.iloc[0])).items())


def left_out(fit: Fit) -> str:
    """Linearised refits that leave a row out, or have it alone."""
    return lined(
        {
            ROW: fit.settings.label(row),
            **{name: f"{value:.1f}" for name, value in refits(fit, row).items()},
            "as far as it may, row alone": ", ".join(at_bound(fit, row)) or ABSENT,
        }
        for row in range(len(fit.settings.series))
    )


def moves(fit: Fit) -> str:
    """For each row the constants that alone would serve it best."""
    return lined(
        {
            ROW: fit.settings.label(row) if at == 0 else "",
            **_move(move, "linearised: its change, %", "the row then: rms, %", "the fitted rows then: rms, %"),
        }
        for row in range(len(fit.settings.series))
        for at, move in enumerate(movers(fit, fit.settings.where(row=row)).head(MOST_MOVERS).itertuples())
    )


def asked_for(fit: Fit) -> str:
    """The constants whose change alone would serve the held-out arm best, in the rows that the fit has slopes of."""
    fitted, held_out = fit.settings.arms
    names = f"{held_out} of the fitted rows then: rms, %", f"the fitted cells of {fitted} then: rms, %"
    cells = [at for at in fit.settings.sloped() if fit.settings.cells[at].arm == 1]
    return lined(
        _move(one, "its change, %", *names) for one in movers(fit, cells).head(2 * MOST_MOVERS).itertuples() if cells
    )


def _move(move: Any, change: str, own: str, fitted: str) -> dict[str, str]:
    return {
        "constant": f"`{move.name}`",
        change: signed(move.change_pct, 0),
        own: f"{move.rms_pct:.1f}",
        fitted: f"{move.fitted_pct:.1f}",
    }
