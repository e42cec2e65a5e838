"""A new machine file with the measured constants; every other constant keeps value and source of the base."""

import dataclasses
from pathlib import Path

from afdep import Machine
from afdep.machine import Constant
from harness.fit.machine_file import line
from harness.records.calibrations import MEASURED, Calibration, CalibrationConstant, CalibrationRun

_DIGITS = 4


def write(path: Path, base: Machine, calibration: Calibration, record: str) -> Path:
    """Write the machine, and read it back.

    Args:
        path: of the new file.
        base: the machine that the calibration was judged beside.
        calibration: its constants.
        record: name of its record, for the sources.

    Raises:
        FileExistsError: a file is there.
    """
    run = calibration.measurement.run
    found = {one.constant: one for one in calibration.constants if one.status == MEASURED}
    table = [_measured(one, found[one.name], run, record) if one.name in found else one for one in base.table]
    head = f"# {base.name}, {len(found)} of its {len(table)} constants as `harness calibrate` measured them."
    with path.open("x", encoding="utf-8") as stream:
        stream.write("\n".join([head, *map(line, table)]) + "\n")
    Machine.load(path.stem, path.parent)
    return path


def _measured(one: Constant, found: CalibrationConstant, run: CalibrationRun, record: str) -> Constant:
    assert found.value is not None
    assert found.spread is not None
    source = (
        f"measured by `harness calibrate` on {run.gpus} x {run.device}, record {record}, {found.probe}: "
        f"\u00b1 {found.spread:.2g} over {found.samples} samples"
    )
    digits = max(_DIGITS, len(f"{abs(found.value):.0f}"))
    return dataclasses.replace(one, value=float(f"{found.value:.{digits}g}"), source=source)
