"""A recorded fit as arrays: what the page and its plots are computed from."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness.screen_config import Row
from harness.fit.figures import Array, Figures, jacobian_pct, residuals_pct
from harness.fit.settings import Free
from harness.records.fits import Fit, FitCell, FitConstant


@dataclass(frozen=True)
class Study:
    """A recorded fit, indexed by row, tokens and arm."""

    fit: Fit

    @cached_property
    def settings(self) -> dict[str, Any]:
        """How cells were simulated and what the fit was told."""
        return dict(json.loads(self.fit.run.settings))

    @cached_property
    def arms(self) -> tuple[str, str]:
        return self.fit.run.baseline, self.fit.run.candidate

    @cached_property
    def tokens(self) -> list[int]:
        return list(dict.fromkeys(cell.tokens for cell in self.fit.cells))

    @cached_property
    def rows(self) -> list[Row]:
        return [
            Row(cell.layout, cell.hidden, cell.dtype, cell.routing, cell.zipf_exponent, cell.experts)
            for cell in self.fit.cells[:: len(self.tokens)]
        ]

    @cached_property
    def fitted_rows(self) -> list[int]:
        """Rows that the constants are fitted on."""
        return sorted({cell.row for cell in self.fit.cells if cell.fitted})

    @cached_property
    def published(self) -> Figures:
        change = np.array([cell.published_change_pct for cell in self.fit.cells])
        return Figures(self._us("published"), change.reshape(len(self.rows), -1))

    @cached_property
    def simulated_us(self) -> Array:
        """[row, tokens, arm], with the constants of the machine file."""
        return self._us("simulated")

    @cached_property
    def refitted_us(self) -> Array:
        """[row, tokens, arm], with the constants that the fit found."""
        return self._us("refitted")

    @cached_property
    def constants(self) -> list[str]:
        return [one.name for one in self.fit.constants]

    @cached_property
    def free(self) -> list[FitConstant]:
        """The constants that were fitted."""
        return [one for one in self.fit.constants if one.refitted is not None]

    @cached_property
    def bounds(self) -> list[Free]:
        return [Free(one.name, float(one.lower or 0), float(one.upper or 0)) for one in self.free]

    @cached_property
    def slopes(self) -> Array:
        """[constant, row, tokens, arm]."""
        found = np.array([one.slope for one in self.fit.slopes])
        return found.reshape(len(self.constants), *self.simulated_us.shape)

    def residuals_pct(self, rows: Sequence[int]) -> Array:
        """Simulated against published, of these rows: round trips, then changes."""
        return residuals_pct(self.simulated_us[list(rows)], self.published.of_rows(rows))

    def jacobian_pct(self, rows: Sequence[int], names: Sequence[str]) -> Array:
        """[figure, constant], in the order of `residuals_pct`."""
        chosen = self.slopes[[self.constants.index(name) for name in names]][:, list(rows)]
        return jacobian_pct(self.simulated_us[list(rows)], chosen)

    def num_latencies(self, rows: Sequence[int]) -> int:
        """Round trips among the figures of rows; the rest are changes, which follow from them but for rounding."""
        return self.simulated_us[list(rows)].size

    def refit_us(self, row: int, alone: bool) -> Array:
        """A row simulated with the constants of a linearised refit on it alone, or on all others: [tokens, arm]."""
        (found,) = (one for one in self.fit.refits if (one.row, one.alone) == (row, alone))
        return np.array(found.simulated_us).reshape(len(self.tokens), 2)

    def _us(self, kind: str) -> Array:
        pairs = [[getattr(cell, f"{kind}_{arm}_us") for arm in ("baseline", "candidate")] for cell in self.fit.cells]
        return np.array(pairs, dtype=np.float64).reshape(-1, len(self.tokens), 2)

    def cell(self, row: int, column: int) -> FitCell:
        return self.fit.cells[row * len(self.tokens) + column]
