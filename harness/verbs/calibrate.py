"""`calibrate`: constants of the simulated machine from micro-benchmarks of a device, beside those of a machine file."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness import sections
from harness.calibrate import machine_file, page, program
from harness.calibrate.device import measure, runner
from harness.calibrate.judging import judge
from harness.calibrate.settings import CalibrationSettings, calibration_settings
from harness.compose import compose
from harness.records.calibrations import (
    Calibration,
    Measurement,
    read_calibration,
    read_measurement,
    write_calibration,
)
from harness.surroundings import OK, Surroundings
from harness.trees import exclusive_directory
from harness.workspace import Workspace, displayed, write_page


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Measure or read, record and report; no machine file is changed."""
    config = compose("calibrate", texts, around.repository / "conf")
    settings = calibration_settings(config, around.repository)
    measurement = _measurement(settings, shlex.join(["python", "-m", "harness", "calibrate", *texts]), around)
    constants = judge(settings.machine, measurement.readings, settings.limits)
    folder = _folder(settings, sections.launcher(config).out, around.repository)
    kept = read_calibration(write_calibration(folder, Calibration(measurement, constants)))
    written = [folder, _report(kept, folder, settings, around.repository)]
    if settings.write is not None:
        base = around.repository / "conf" / "machine" / f"{settings.machine.name}.yaml"
        written.append(machine_file.write(settings.write, settings.machine, base, kept, folder.name))
    around.print_line(page.summary(kept))
    around.print_line("written: " + ", ".join(displayed(path, around.repository) for path in written))
    return OK


def _measurement(settings: CalibrationSettings, command: str, around: Surroundings) -> Measurement:
    if settings.source is not None:
        return read_measurement(settings.source)
    built = program.build(around.repository)
    return measure(runner(built), command, program.probes_hash(around.repository), around.now)


def _folder(settings: CalibrationSettings, out: str, repository: Path) -> Path:
    """Where the record goes: a new folder under the out folder, or the kept one."""
    if settings.keep is not None:
        return repository / "records" / "calibrations" / settings.keep
    return exclusive_directory(Workspace.under(out, repository).out / "calibrations", "calibration")


def _report(calibration: Calibration, folder: Path, settings: CalibrationSettings, repository: Path) -> Path:
    """The page: beside the record, or under reports/calibrations where it is kept."""
    pages = folder if settings.keep is None else repository / "reports" / "calibrations"
    return write_page(pages / f"{folder.name}.md", page.text(folder.name, calibration))
