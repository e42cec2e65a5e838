"""Records of fits to measured round trips: a folder for each, with a table of each kind of thing that it holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.records.fits import FitStep
from harness.records.typed import read_run, read_tables, write_folder

MEASURED_FIT_VERSION = 1

FITTED, MEASURED, LEFT_OUT, FILE = "fitted", "measured", "left out", "file"
"""What a constant is here: fitted; measured by a micro-benchmark; given by nothing, for a reason; as its file says."""

FREE, START_OFF, BEHIND = "free-running", "start taken off", "behind barriers"
"""Which measured figure a simulated one is compared with."""


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """One fit.

    Args:
        command: as it was typed.
        created: when it ended, in UTC.
        native_digest: of the library that simulated, as it reports it.
        measured_digest: of what was measured.
        machine: whose constants were fitted.
        source: folder of the measured records.
        devices: that they ran on, as the ranks told; empty where none did.
        fitted_arm, held_out_arm: names.
        start_us: what a replay behind host barriers takes longer than its exchanges running free, the median over the
            fitted arm's cells that were timed both ways; null where none was.
        num_absences: rows of the table of what does not count, which has no file without one.
        settings: how cells were simulated and what the fit was told, as JSON.
    """

    command: str
    created: str
    native_digest: str
    measured_digest: str
    harness_digest: str
    machine: str
    source: str
    devices: str
    fitted_arm: str
    held_out_arm: str
    start_us: float | None
    num_absences: int
    settings: str


@dataclass(frozen=True, kw_only=True)
class MeasuredPlan:
    """A plan that cells were measured under."""

    plan_hash: str
    created: str
    command: str
    timing: str


@dataclass(frozen=True, kw_only=True)
class MeasuredAbsence:
    """What does not count: a cell of a process that is void, failed or missing, or a file that is damaged.

    Args:
        plan_hash: of its plan.
        what: row, arm and pair, or the name of the file.
        tokens: of the cell; null for a file.
        status, reason: as the record has them.
    """

    plan_hash: str
    what: str
    tokens: int | None
    status: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class MeasuredCell:
    """One cell of one arm.

    Args:
        row: cells of one row, exchange and number of SMs share it.
        arm: 0 the fitted arm, 1 the held-out one.
        fitted: whether the constants are fitted on it.
        free_us: measured free-running, one figure a pair of processes; empty where it was not.
        behind_us: measured behind host barriers, likewise.
        replay: exchanges of a replay behind host barriers; 0 where none ran.
        compared_us: the measured figure that the simulated ones stand beside.
        timing: which that is: `free-running`, `start taken off`, or `behind barriers`.
        simulated_us: with the constants of the machine file.
        refitted_us: with the constants that the fit found.
    """

    row: int
    layout: str
    hidden: int
    dtype: str
    routing: str
    zipf_exponent: float | None
    experts: int
    transport_sms: int
    tokens: int
    arm: int
    fitted: bool
    free_us: tuple[float, ...]
    behind_us: tuple[float, ...]
    replay: int
    compared_us: float
    timing: str
    simulated_us: float
    refitted_us: float


@dataclass(frozen=True, kw_only=True)
class MeasuredConstant:
    """One constant of the machine file.

    Args:
        value, source: in the machine file.
        kind: `fitted`, `measured`, `left out` or `file`.
        reason: why it is left out, or fitted although a micro-benchmark tells a part of it; else null.
        lower, upper, refitted: bounds and outcome, of a constant that was fitted; else null.
    """

    name: str
    unit: str
    value: float
    source: str
    kind: str
    reason: str | None
    lower: float | None
    upper: float | None
    refitted: float | None


@dataclass(frozen=True, kw_only=True)
class MeasuredSlope:
    """What a constant does to one cell: d log(us) / d log(constant) at the machine file; of one that is 0, per unit.

    Args:
        constant: its name.
        cell: index among the cells.
        slope: the slope.
    """

    constant: str
    cell: int
    slope: float


@dataclass(frozen=True)
class MeasuredFit:
    """All that is recorded of a fit to measured round trips."""

    run: MeasuredRun
    plans: Sequence[MeasuredPlan]
    absences: Sequence[MeasuredAbsence]
    cells: Sequence[MeasuredCell]
    constants: Sequence[MeasuredConstant]
    slopes: Sequence[MeasuredSlope]
    steps: Sequence[FitStep]


TABLES: Mapping[str, type[Any]] = {
    "plans": MeasuredPlan,
    "absences": MeasuredAbsence,
    "cells": MeasuredCell,
    "constants": MeasuredConstant,
    "slopes": MeasuredSlope,
    "steps": FitStep,
}
ABSENCES = "absences"
"""The table that has no file where it has no row."""


def write_measured_fit(directory: Path, fit: MeasuredFit) -> Path:
    """Write a fit into a folder.

    Returns:
        The folder.

    Raises:
        FileExistsError: a fit is there.
    """
    tables = {name: getattr(fit, name) for name in TABLES if name != ABSENCES or fit.absences}
    return write_folder(directory, MEASURED_FIT_VERSION, fit.run, tables)


def read_measured_fit(directory: Path) -> MeasuredFit:
    """The fit in a folder.

    Raises:
        DamagedTableError: a file that is not as it was written.
    """
    run = read_run(directory, MEASURED_FIT_VERSION, MeasuredRun)
    there = {name: kind for name, kind in TABLES.items() if name != ABSENCES or run.num_absences}
    return MeasuredFit(run, **{ABSENCES: (), **read_tables(directory, MEASURED_FIT_VERSION, there)})
