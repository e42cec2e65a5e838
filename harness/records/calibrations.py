"""Records of calibrations: a folder for each, with its run, the probes' readings and the constants that follow."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.typed import read_run, read_table, write_folder, write_table

CALIBRATION_VERSION = 1
MEASURED, VOID, KEPT = "measured", "void", "kept"
"""What became of a constant: a probe gave its value; a probe's value is of no use; no reading gives one."""


@dataclass(frozen=True, kw_only=True)
class CalibrationRun:
    """One run of the probes.

    Args:
        command: as it was typed where the probes ran.
        created: when they ended, in UTC.
        probes_hash: of the probes' sources.
        device: name of the first GPU.
        gpus: how many the machine showed.
        driver: the driver's version; empty where it was not told.
        cuda_driver, cuda_runtime: as the CUDA API numbers them.
        most_sm_mhz, memory_mhz: clocks that the device is made for; what an SM ran at is a reading.
    """

    command: str
    created: str
    probes_hash: str
    device: str
    gpus: int
    driver: str
    cuda_driver: int
    cuda_runtime: int
    most_sm_mhz: float
    memory_mhz: float


@dataclass(frozen=True, kw_only=True)
class CalibrationReading:
    """What a probe read, or why it is void.

    Args:
        probe, variant: what was measured, and how.
        ctas: CTAs, or warps where the probe is of one CTA; 0 where that has no meaning.
        bytes: of a row or message; 0 where that has no meaning.
        unit: of the samples.
        samples: in the order they were taken; none of a void probe.
        void: why, or null.
    """

    probe: str
    variant: str
    ctas: int
    bytes: int
    unit: str
    samples: tuple[float, ...]
    void: str | None


@dataclass(frozen=True, kw_only=True)
class CalibrationConstant:
    """What became of one constant of the machine file.

    Args:
        constant: its name.
        unit: its unit.
        probe: the readings that it follows from; empty where none gives it.
        status: `measured`, `void` or `kept`.
        base: value in the machine file that was the base.
        base_source: where that value came from.
        value: what was measured, also where it is void; null where nothing was.
        spread: half the distance from the 10th to the 90th percentile, carried through; null as the value.
        samples: of the reading that has fewest; 0 without any.
        reason: why it is void or kept, or null.
    """

    constant: str
    unit: str
    probe: str
    status: str
    base: float
    base_source: str
    value: float | None
    spread: float | None
    samples: int
    reason: str | None


@dataclass(frozen=True)
class Measurement:
    """What ran, and what it read."""

    run: CalibrationRun
    readings: Sequence[CalibrationReading]


@dataclass(frozen=True)
class Calibration:
    """All that is recorded of a calibration.

    Args:
        measurement: the probes' readings.
        constants: of the machine file, in its order.
    """

    measurement: Measurement
    constants: Sequence[CalibrationConstant]


def write_measurement(directory: Path, measurement: Measurement) -> Path:
    """Write a run and its readings into a folder.

    Returns:
        The folder.

    Raises:
        FileExistsError: a measurement is there.
    """
    return write_folder(directory, CALIBRATION_VERSION, measurement.run, {"readings": measurement.readings})


def write_calibration(directory: Path, calibration: Calibration) -> Path:
    """Write a calibration into a folder.

    Returns:
        The folder.

    Raises:
        FileExistsError: one is there.
    """
    write_table(directory, "constants", CALIBRATION_VERSION, calibration.constants)
    return write_measurement(directory, calibration.measurement)


def read_measurement(directory: Path) -> Measurement:
    """The run and the readings in a folder.

    Raises:
        FileNotFoundError: there is no measurement.
        DamagedTableError: a file that is not as it was written.
    """
    run = read_run(directory, CALIBRATION_VERSION, CalibrationRun)
    return Measurement(run, read_table(directory / "readings.parquet", CALIBRATION_VERSION, CalibrationReading))


def read_calibration(directory: Path) -> Calibration:
    """The calibration in a folder.

    Raises:
        FileNotFoundError: there is none.
        DamagedTableError: a file that is not as it was written.
    """
    constants = read_table(directory / "constants.parquet", CALIBRATION_VERSION, CalibrationConstant)
    return Calibration(read_measurement(directory), constants)
