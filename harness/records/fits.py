"""Records of fits: a folder for each, with its run, cells, constants, slopes, steps and refits as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.records.typed import read_run, read_tables, write_folder

FIT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class FitRun:
    """One fit.

    Args:
        command: as it was typed.
        created: when it ended, in UTC.
        native_digest: of the library that simulated, as it reports it.
        machine: whose constants are perturbed and fitted.
        published: id of the published table.
        baseline, candidate: the two arms.
        settings: how cells were simulated and what the fit was told, as JSON.
    """

    command: str
    created: str
    native_digest: str
    harness_digest: str
    machine: str
    published: str
    baseline: str
    candidate: str
    settings: str


@dataclass(frozen=True, kw_only=True)
class FitCell:
    """Both arms of one cell.

    Args:
        row: index of the table row, fitted on or held out.
        fitted: whether the constants are fitted on this row.
        zipf_exponent: of the routing `skew`, itself fitted on its row; else null.
        published_baseline_us, published_candidate_us, published_change_pct: of the published table.
        simulated_baseline_us, simulated_candidate_us: with the constants of the machine file.
        refitted_baseline_us, refitted_candidate_us: with the constants that the fit found.
    """

    row: int
    layout: str
    hidden: int
    dtype: str
    routing: str
    zipf_exponent: float | None
    experts: int
    fitted: bool
    tokens: int
    published_baseline_us: float
    published_candidate_us: float
    published_change_pct: float
    simulated_baseline_us: float
    simulated_candidate_us: float
    refitted_baseline_us: float
    refitted_candidate_us: float


@dataclass(frozen=True, kw_only=True)
class FitConstant:
    """One constant of the machine file.

    Args:
        value: in the machine file.
        stepped: the value that its slopes were taken at.
        lower, upper, refitted: bounds and outcome, of a constant that was fitted; else null.
    """

    name: str
    unit: str
    value: float
    stepped: float
    lower: float | None
    upper: float | None
    refitted: float | None


@dataclass(frozen=True, kw_only=True)
class FitSlope:
    """What a constant does to one cell of one arm.

    Args:
        constant: its name.
        row, tokens: of the cell.
        arm: 0 the baseline, 1 the candidate.
        exchanges: simulated ones, with the routes of the cell's first ones.
        slope: d log(us) / d log(constant); of a constant that is 0, d log(us) per unit.
        error: standard error of the slope over the exchanges; null for a single one.
    """

    constant: str
    row: int
    tokens: int
    arm: int
    exchanges: int
    slope: float
    error: float | None


@dataclass(frozen=True, kw_only=True)
class FitStep:
    """One point that the fit tried.

    Args:
        evaluation: from 1; the first are the constants of the machine file.
        rms_pct: of the latencies that are fitted, relative.
        cost: what the fit makes small.
        values: of the fitted constants, in their order.
    """

    evaluation: int
    rms_pct: float
    cost: float
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class FitRefit:
    """A linearised refit for one row, and the row simulated with what it found.

    Args:
        row: the row.
        alone: fitted on this row and no other; else on every row but this one.
        values: of the fitted constants, in their order.
        simulated_us: of the row's cells, by tokens, the baseline before the candidate.
    """

    row: int
    alone: bool
    values: tuple[float, ...]
    simulated_us: tuple[float, ...]


@dataclass(frozen=True)
class Fit:
    """All that is recorded of a fit."""

    run: FitRun
    cells: Sequence[FitCell]
    constants: Sequence[FitConstant]
    slopes: Sequence[FitSlope]
    steps: Sequence[FitStep]
    refits: Sequence[FitRefit]


TABLES: Mapping[str, type[Any]] = {
    "cells": FitCell,
    "constants": FitConstant,
    "slopes": FitSlope,
    "steps": FitStep,
    "refits": FitRefit,
}


def write_fit(directory: Path, fit: Fit) -> Path:
    """Write a fit into a folder.

    Returns:
        The folder.

    Raises:
        FileExistsError: a fit is there.
    """
    return write_folder(directory, FIT_VERSION, fit.run, {name: getattr(fit, name) for name in TABLES})


def read_fit(directory: Path) -> Fit:
    """The fit in a folder.

    Raises:
        DamagedTableError: a file that is not as it was written.
    """
    return Fit(read_run(directory, FIT_VERSION, FitRun), **read_tables(directory, FIT_VERSION, TABLES))
