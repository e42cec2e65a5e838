"""A recorded fit to measured round trips, indexed by row, tokens and arm."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np

from harness.screen_config import Row
from harness.fit.figures import Array
from harness.fit.identify import Identification
from harness.fit.measured.targets import Figures
from harness.records.measured_fits import FITTED, MeasuredCell, MeasuredConstant, MeasuredFit
from harness.tables import row_label

Select = Callable[[MeasuredCell], bool]
SIMULATED, REFITTED = "simulated", "refitted"
FITTED_ARM, HELD_OUT_ARM = 0, 1


@dataclass(frozen=True)
class Mover:
    """The one change of one constant that serves some cells best, linearised; nothing is fitted to them.

    Args:
        name: the constant.
        change_pct: of its value.
        rms_pct: of those cells then, as 100 log(simulated / measured).
        fitted_pct: of the fitted cells then.
    """

    name: str
    change_pct: float
    rms_pct: float
    fitted_pct: float


@dataclass(frozen=True)
class Study:
    """A recorded fit to measured round trips."""

    fit: MeasuredFit

    @cached_property
    def settings(self) -> dict[str, Any]:
        """How cells were simulated and what the fit was told."""
        return dict(json.loads(self.fit.run.settings))

    @property
    def arms(self) -> tuple[str, str]:
        """The fitted one, and the one that is held out."""
        return self.fit.run.fitted_arm, self.fit.run.held_out_arm

    @cached_property
    def rows(self) -> list[int]:
        return sorted({cell.row for cell in self.fit.cells})

    @cached_property
    def tokens(self) -> list[int]:
        return sorted({cell.tokens for cell in self.fit.cells})

    @property
    def free(self) -> list[MeasuredConstant]:
        """The constants that were fitted."""
        return [one for one in self.fit.constants if one.kind == FITTED]

    def label(self, row: int) -> str:
        """A row with its SMs."""
        one = next(cell for cell in self.fit.cells if cell.row == row)
        known = Row(one.layout, one.hidden, one.dtype, one.routing, one.zipf_exponent, one.experts)
        return f"{row_label(known)}, {one.transport_sms} SMs"

    def is_fitted_row(self, row: int) -> bool:
        return any(cell.fitted for cell in self.fit.cells if cell.row == row)

    def cells(self, select: Select) -> list[MeasuredCell]:
        return [cell for cell in self.fit.cells if select(cell)]

    def where(self, **wanted: object) -> list[MeasuredCell]:
        """The cells whose fields have these values."""
        return self.cells(lambda cell: all(getattr(cell, name) == value for name, value in wanted.items()))

    @cached_property
    def slopes(self) -> Array:
        """[constant, cell among those whose slopes were taken]."""
        return np.array([one.slope for one in self.fit.slopes]).reshape(len(self.fit.constants), -1)

    @cached_property
    def sloped(self) -> list[int]:
        """The cells whose slopes were taken."""
        return list(dict.fromkeys(one.cell for one in self.fit.slopes))

    def movers(self, arm: int) -> list[Mover]:
        """Every constant by what it alone could do for the sloped cells of an arm, as far as it may reach."""
        own = [index for index, cell in enumerate(self.sloped) if self.fit.cells[cell].arm == arm]
        fitted = [index for index, cell in enumerate(self.sloped) if self.fit.cells[cell].fitted]
        reach = math.log(self.settings["reach"])
        found = []
        for number, one in enumerate(self.fit.constants):
            if one.value > 0 and own:
                residuals, column = self._logs(own), 100.0 * self.slopes[number, own]
                length = float(column @ column)
                best = -float(column @ residuals) / length if length > 0 else 0.0
                log = min(max(best, -reach), reach)
                then = residuals + column * log, self._logs(fitted) + 100.0 * self.slopes[number, fitted] * log
                found.append(Mover(one.name, 100.0 * math.expm1(log), _rms(then[0]), _rms(then[1])))
        return sorted(found, key=lambda mover: mover.rms_pct)

    def _logs(self, sloped: Sequence[int]) -> Array:
        cells = [self.fit.cells[self.sloped[index]] for index in sloped]
        return np.array([100.0 * math.log(cell.simulated_us / cell.compared_us) for cell in cells])

    def identification(self) -> Identification:
        """What the fitted cells tell about the fitted constants."""
        own = [index for index, cell in enumerate(self.sloped) if self.fit.cells[cell].fitted]
        numbers = [index for index, one in enumerate(self.fit.constants) if one.kind == FITTED]
        ranges = [math.log(float(one.upper or 0) / float(one.lower or 0)) for one in self.free]
        return Identification(
            [one.name for one in self.free],
            np.array(ranges),
            100.0 * self.slopes[np.ix_(numbers, own)].T,
            self._logs(own),
            self.settings["collinear"],
            self.settings["identified_pct"],
        )


def error_pct(cell: MeasuredCell, kind: str) -> float:
    """Simulated or refitted against measured, in percent."""
    return 100.0 * (float(getattr(cell, f"{kind}_us")) / cell.compared_us - 1.0)


def rms_pct(cells: Sequence[MeasuredCell], kind: str) -> float:
    """The root mean square of the errors; NaN without a cell."""
    return _rms(np.array([error_pct(cell, kind) for cell in cells])) if cells else math.nan


def raw_rms_pct(cells: Sequence[MeasuredCell], kind: str) -> float:
    """The same against what was measured behind host barriers, starts and all."""
    errors = [float(getattr(cell, f"{kind}_us")) / median(cell.behind_us) - 1.0 for cell in cells if cell.behind_us]
    return 100.0 * _rms(np.array(errors)) if errors else math.nan


def start_us(cell: MeasuredCell) -> float | None:
    """As `Figures.start_us`, of a recorded cell."""
    return Figures(cell.free_us, cell.behind_us, cell.replay).start_us


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else math.nan
