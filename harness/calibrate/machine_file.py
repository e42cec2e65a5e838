"""A new machine file with the measured constants; every other line stays as the base has it."""

import dataclasses
from pathlib import Path

from afdep import Machine
from afdep.machine import Constant
from harness.machine_files import write_over
from harness.records.calibrations import MEASURED, Calibration, CalibrationConstant, CalibrationRun

MEASURED_HERE = "measured by `harness calibrate`"
"""How the source of a constant begins that a calibration gave."""
_DIGITS = 4


def write(path: Path, base: Machine, base_path: Path, calibration: Calibration, record: str) -> Path:
    """Write the machine, and read it back.

    Args:
        path: of the new file.
        base: the machine that the calibration was judged beside.
        base_path: its file.
        calibration: its constants.
        record: name of its record, for the sources.

    Raises:
        FileExistsError: a file is there.
    """
    run = calibration.measurement.run
    found = {one.constant: one for one in calibration.constants if one.status == MEASURED}
    changed = [_measured(one, found[one.name], run, record) for one in base.table if one.name in found]
    return write_over(base_path, path, changed)


def _measured(one: Constant, found: CalibrationConstant, run: CalibrationRun, record: str) -> Constant:
    assert found.value is not None
    assert found.spread is not None
    source = (
        f"{MEASURED_HERE} on {run.gpus} x {run.device}, record {record}, {found.probe}: "
        f"\u00b1 {found.spread:.2g} over {found.samples} samples"
    )
    digits = max(_DIGITS, len(f"{abs(found.value):.0f}"))
    return dataclasses.replace(one, value=float(f"{found.value:.{digits}g}"), source=source)
