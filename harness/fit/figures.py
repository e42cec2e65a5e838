"""Figures of a table as arrays: how far simulated ones are from published ones, and how the constants move that."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.screen_config import ScreenConfig
from harness.published import Point, PublishedTable

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """Round trips and changes.

    Args:
        us: [row, tokens, arm], the baseline first.
        change_pct: [row, tokens], of the candidate against the baseline; a published one is not the ratio of its arms.
    """

    us: Array
    change_pct: Array

    @classmethod
    def of_us(cls, us: Array) -> "Figures":
        """Figures whose changes are the ratios of their arms."""
        return cls(us, 100.0 * (us[..., 1] / us[..., 0] - 1.0))

    def of_rows(self, rows: Sequence[int]) -> "Figures":
        """These rows alone."""
        return Figures(self.us[list(rows)], self.change_pct[list(rows)])

    def residuals_pct(self, own_us: Array) -> Array:
        """What a fit to these figures makes small."""
        return residuals_pct(own_us, self)

    def jacobian_pct(self, own_us: Array, slopes: Array) -> Array:
        """How `residuals_pct` moves with log of each constant."""
        return jacobian_pct(own_us, slopes)

    def rms_pct(self, own_us: Array) -> float:
        """The rms error of the round trips."""
        return rms_pct(own_us, self.us)


def published_figures(screen: ScreenConfig, table: PublishedTable) -> Figures:
    """The published figures of every cell of a screen."""
    cells = [
        [table.cells[Point(row.layout, row.hidden, row.dtype, row.routing, tokens)] for tokens in screen.tokens]
        for row in screen.rows
    ]
    us = [[(cell.baseline_us, cell.candidate_us) for cell in row] for row in cells]
    return Figures(np.array(us), np.array([[cell.change_pct for cell in row] for row in cells]))


def residuals_pct(own_us: Array, target: Figures) -> Array:
    """Simulated against published: 100 log of the ratio for every round trip, then points for every change."""
    own = Figures.of_us(own_us)
    latencies = 100.0 * np.log(own.us / target.us)
    return np.concatenate([latencies.ravel(), (own.change_pct - target.change_pct).ravel()])


def jacobian_pct(own_us: Array, slopes: Array) -> Array:
    """How `residuals_pct` moves with log of each constant.

    Args:
        own_us: [row, tokens, arm].
        slopes: d log(us) / d log(constant), [constant, row, tokens, arm].

    Returns:
        [figure, constant], in the order of `residuals_pct`.
    """
    count = len(slopes)
    ratio = own_us[..., 1] / own_us[..., 0]
    changes = 100.0 * ratio * (slopes[..., 1] - slopes[..., 0])
    return np.concatenate([100.0 * slopes.reshape(count, -1), changes.reshape(count, -1)], axis=1).T


def rms_pct(own_us: Array, target_us: Array) -> float:
    """The root mean square of own / target - 1, in percent."""
    return float(100.0 * np.sqrt(np.mean((own_us / target_us - 1.0) ** 2)))
