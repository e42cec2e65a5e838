"""Every page made again from its records: the one place here that knows the code that makes them.

Each entry of `PAGES` takes the root of a tree, reads that tree's records/, and returns the page's text, without
pictures. Figures that were published by others are those of this tree.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.desk import select
from harness.desk.desk import real
from harness.device_tests import page as device_tests_page
from harness.faults import page as faults_page
from harness.records import table
from harness.records.faults import read_faults
from harness.records.sanitizings import read_sanitizing
from harness.records.validations import read_validation
from harness.report.results import Part, Results
from harness.sanitizer import page as sanitizer_page
from harness.studies.calibrate import report as calibrate
from harness.studies.fit import report as fits
from harness.studies.screen import report as screen_report
from harness.validation import page as validation_page

Render = Callable[[Path], str]


def screens(folder: str, root: Path) -> str:
    """All plans of a folder."""
    source = {"source": str(root / "records" / folder), "plan": select.ALL}
    return screen_report.text(select.select("screen", source, replace(real(), root=root)))


def validation(name: str, root: Path) -> str:
    return validation_page.text(name, read_validation(root / "records" / "validation" / f"{name}.parquet"))


def faults(root: Path) -> str:
    return faults_page.text("h200", read_faults(root / "records" / "faults" / "h200.parquet"))


def sanitizer(root: Path) -> str:
    return sanitizer_page.text(read_sanitizing(root / "records" / "sanitizer" / "h200.parquet"))


def device_tests(root: Path) -> str:
    """The tests that ran on GPUs, by the cases of this tree's docs/field-cases.md."""
    kept = device_tests_page.kept(root / "records" / "device-tests" / "h200.parquet")
    return device_tests_page.text(kept, device_tests_page.named())


def calibration(root: Path) -> str:
    files = table.record_files(root / "records" / "calibrations" / "h200")
    return calibrate.text(Results("calibrate", "h200", (Part(None, table.read(files)),)))


def fit(name: str, root: Path) -> str:
    files = table.record_files(root / "records" / "fit" / name)
    return fits.text(Results("fit", name, (Part(None, table.read(files)),)))


PAGES: Mapping[str, Render] = {
    "README.md": partial(screens, "first-light"),
    "reports/main-table/report.md": partial(screens, "main-table"),
    "reports/h200.md": partial(screens, "h200"),
    "reports/h200-colocated.md": partial(screens, "h200-colocated"),
    "reports/validation/matrix.md": partial(validation, "matrix"),
    "reports/validation/h200-one-gpu.md": partial(validation, "h200-one-gpu"),
    "reports/validation/h200-two-gpus.md": partial(validation, "h200-two-gpus"),
    "reports/faults/h200.md": faults,
    "reports/sanitizer.md": sanitizer,
    "reports/device-tests.md": device_tests,
    "reports/calibrations/h200.md": calibration,
    "reports/fit/h100-nvlink.md": partial(fit, "h100-nvlink"),
    "reports/fit/h200-nvlink.md": partial(fit, "h200-nvlink"),
}
"""By the page's path in the tree; of README the generated block."""
