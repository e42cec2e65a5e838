"""What a fit is told, and what comes of it: cells with the figures that they are to have, constants, slopes.

Cells stand in order of row, tokens and arm. Which figures they are to have is the one thing that published and measured
fits differ in: a published table has paired changes besides, and is fitted on whole rows; of measured round trips one
arm alone is fitted on.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from afdep import machine
from harness.core.fields import ArmName, Count, Name, Natural, Number, Share, Within
from harness.ranks.cells import Exchange, Row

Array = NDArray[np.float64]

FITTED, MEASURED, LEFT_OUT, NO_EFFECT, FILE = "fitted", "measured", "left out", "no effect", "file"
"""What a constant is: fitted; given by a micro-benchmark; by nothing, for a reason; moves no cell; as its file says."""
FREE_RUNNING, START_OFF, BEHIND = "free-running", "start taken off", "behind barriers"
"""Which measured figure a simulated one is compared with."""


@dataclass(frozen=True)
class Series:
    """A row under one exchange: what its cells share but tokens and arm."""

    row: Row
    exchange: Exchange


@dataclass(frozen=True)
class Cell:
    """One cell of one arm, with the figure that the simulator is to give.

    Args:
        row: index of its series.
        tokens: of every source.
        arm: index of its arm.
        us: the figure, of a round trip.
        fitted: whether constants are fitted on it.
        change_pct: published change against the cell before it, which is not the ratio of the two.
        timing: which measured figure it is.
        free_us: measured free-running, one figure a pair of processes.
        behind_us: measured behind host barriers, likewise.
        replay: exchanges of a replay behind host barriers; 0 where none ran.
    """

    row: int
    tokens: int
    arm: int
    us: float
    fitted: bool = False
    change_pct: float | None = None
    timing: str = ""
    free_us: tuple[float, ...] = ()
    behind_us: tuple[float, ...] = ()
    replay: int = 0

    @property
    def start_us(self) -> float | None:
        """What a replay behind host barriers took longer than its exchanges running free; None unless both ran."""
        both = self.free_us and self.behind_us
        return self.replay * (median(self.behind_us) - median(self.free_us)) if both else None


@dataclass(frozen=True)
class Constant(machine.Constant):
    """One constant of the machine file, and what a fit makes of it.

    Args:
        kind: what it is.
        reason: why it is of this kind, or None.
        lower, upper: bounds, of one that is fitted.
    """

    kind: str = FILE
    reason: str | None = None
    lower: float = 0.0
    upper: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Search:
    """What a fit is of, how it searches, and when it says what of its outcome.

    Args:
        target: where the figures are from.
        machine: that is fitted.
        arms: baseline and candidate, or the one that is fitted on and the one that is held out.
        evaluations: points that it may try.
        pull_pct: a constant doubled or halved costs as much as one figure that is wrong by this.
        step: share of a constant that its slopes are secants over.
        step_down: constants that are stepped down.
        num_exchanges: simulated ones of a cell.
        slope_exchanges: of a cell whose slope is taken, at most.
        reach: factor that a linearised refit may take a constant by.
        collinear: columns of the Jacobian that correlate as much count as one.
        identified_pct: standard error below which a constant counts as identified.
        route_tokens: a slope has no more exchanges than this many tokens make, and at least one.
        goal_pct: rms error that the held-out arm is to have at most.
        worst: how many of its cells are listed as the worst.
    """

    target: Literal["published", "measured"]
    machine: Name
    arms: tuple[ArmName, ...]
    evaluations: Count
    pull_pct: Number
    step: Annotated[float, Within(0.001, 10)]
    step_down: tuple[str, ...]
    num_exchanges: Count
    slope_exchanges: Count
    reach: Annotated[float, Within(1.001)]
    collinear: Share
    identified_pct: Number
    route_tokens: Count = 2**31
    goal_pct: Number = 0.0
    worst: Natural = 0


@dataclass(frozen=True)
class Source:
    """Where the figures are from.

    Args:
        name: of the published table, or of the archive of measured screens.
        digest: of the CUDA sources that were measured.
        own: of the CUDA sources of the tree that simulates.
        start_us: of a replay behind host barriers, the median over cells of the fitted arm; None if nothing tells.
        lines: of the provenance.
        absences: what does not count, and why.
    """

    name: str
    digest: str = ""
    own: str = ""
    start_us: float | None = None
    lines: tuple[str, ...] = ()
    absences: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Settings(Search):
    """What a fit is told.

    Args:
        series: rows of the table.
        cells: of all rows, in order of row, tokens and arm.
        constants: of the machine, in the order of its file.
        free: names of those that are fitted, in the order in which the search has them.
        source: of the figures.
    """

    series: tuple[Series, ...]
    cells: tuple[Cell, ...]
    constants: tuple[Constant, ...]
    free: tuple[str, ...]
    source: Source

    @property
    def values(self) -> dict[str, float]:
        """Every constant as its file has it."""
        return {one.name: one.value for one in self.constants}

    @property
    def names(self) -> list[str]:
        """The constants whose slopes are taken."""
        return [one.name for one in self.constants if one.kind != NO_EFFECT]

    @property
    def fitted(self) -> list[Constant]:
        """The fitted constants in the order of the machine file."""
        return [one for one in self.constants if one.name in self.free]

    def place(self, at: int) -> tuple[Cell, Series]:
        """A cell and its row."""
        return self.cells[at], self.series[self.cells[at].row]

    def where(self, **wanted: object) -> list[int]:
        """The cells whose fields have these values."""
        return [at for at, cell in enumerate(self.cells) if wanted.items() <= vars(cell).items()]

    def figures(self, cells: Sequence[int]) -> Array:
        """What cells are to have, [2, cell]: round trips, and changes against the cell before, NaN where none is."""
        own = [self.cells[at] for at in cells]
        return np.array([[one.us for one in own], [one.change_pct for one in own]], dtype=np.float64)

    def sloped(self) -> list[int]:
        """The cells whose slopes are taken: of measured ones those in rows that are fitted on."""
        fitted = {self.cells[at].row for at in self.where(fitted=True)}
        return [at for at, cell in enumerate(self.cells) if self.target == "published" or cell.row in fitted]

    @property
    def fitted_on(self) -> str:
        """What the constants are fitted on, in words."""
        cells = self.where(fitted=True)
        rows = "; ".join(dict.fromkeys(self.label(self.cells[at].row) for at in cells))
        if self.target == "measured":
            return f"measured {self.arms[0]} of {rows} ({len(cells)} round trips)"
        return f"published {rows} ({len(cells)} round trips, {len(cells) // 2} paired changes)"

    def label(self, row: int) -> str:
        """A row, with its SMs where rows may differ in them."""
        one = self.series[row]
        return one.row.label + (f", {one.exchange.transport_sms} SMs" if self.target == "measured" else "")


def residuals_pct(figures: Array, own_us: Array) -> Array:
    """What a fit makes small: 100 log of the ratio for every round trip, then points for every change."""
    change = 100.0 * (own_us / np.roll(own_us, 1) - 1.0) - figures[1]
    return np.concatenate([100.0 * np.log(own_us / figures[0]), change[~np.isnan(change)]])


def jacobian_pct(figures: Array, own_us: Array, slopes: Array) -> Array:
    """How `residuals_pct` moves with log of each constant, [figure, constant]; slopes are [constant, cell]."""
    change = 100.0 * (own_us / np.roll(own_us, 1)) * (slopes - np.roll(slopes, 1, axis=1))
    return np.concatenate([100.0 * slopes, change[:, ~np.isnan(figures[1])]], axis=1).T


def rms(values: Array) -> float:
    """The root mean square; NaN of nothing."""
    return float(np.sqrt(np.mean(values**2))) if values.size else float("nan")


@dataclass(frozen=True)
class Step:
    """One point that a fit tried.

    Args:
        rms_pct: of the round trips that are fitted.
        cost: what the fit makes small.
        values: of the fitted constants, in their order.
    """

    rms_pct: float
    cost: float
    values: tuple[float, ...]


@dataclass(frozen=True)
class Fit:
    """A fit that is done, or at its start.

    Args:
        settings: what it was told.
        us: round trips of every cell: simulated with the machine file's constants, refitted with those that were found,
            and, under the name of the target, what they are to be.
        slopes: d log(us) / d log(constant) at the machine file, [constant, cell]; of a constant that is 0, per unit.
        errors: their standard errors over exchanges; NaN for a single one.
        steps: the points that were tried.
        found: the fitted constants.
        refits: of the cells of a row, by row and whether a linearised refit was on it alone or on all others.
        native_digest: of the sources that simulated.
    """

    settings: Settings
    us: Mapping[str, Array]
    slopes: Array
    errors: Array
    steps: tuple[Step, ...] = ()
    found: Mapping[str, float] = field(default_factory=dict)
    refits: Mapping[tuple[int, bool], Array] = field(default_factory=dict)
    native_digest: str = ""

    def off_pct(self, kind: str, cells: Sequence[int]) -> Array:
        """How far cells are off, in percent."""
        return np.asarray(100.0 * (self.us[kind][cells] / self.us[self.settings.target][cells] - 1.0))

    def logs_pct(self, cells: Sequence[int]) -> Array:
        """The same with the machine file's constants, as 100 log of the ratio."""
        return np.asarray(100.0 * np.log(self.us["simulated"][cells] / self.us[self.settings.target][cells]))

    def slopes_of(self, names: Sequence[str], cells: Sequence[int]) -> Array:
        """Slopes of some constants in some cells."""
        return self.slopes[np.ix_([self.settings.names.index(name) for name in names], cells)]
