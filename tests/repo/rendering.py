"""Every page made again from its records: the one place here that knows the code that makes them.

Each entry of `PAGES` takes the root of a tree, reads that tree's records/, and returns the page's text, without
pictures. Figures that were published by others are those of this tree.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

from harness.desk import select
from harness.desk.desk import real
from harness.records import table
from harness.report.results import Part, Results
from harness.studies.calibrate import report as calibrate
from harness.studies.device_tests import report as device_tests
from harness.studies.faults import report as faults
from harness.studies.fit import report as fits
from harness.studies.sanitize import report as sanitize
from harness.studies.screen import report as screen_report
from harness.studies.validate import report as validate

Render = Callable[[Path], str]


def screens(folder: str, root: Path, form: Callable[[Results], str] = screen_report.text) -> str:
    """All plans of a folder."""
    source = {"source": str(root / "records" / folder), "plan": select.ALL}
    return form(select.select("screen", source, replace(real(), root=root)))


def validation(name: str, root: Path) -> str:
    reading = table.read([root / "records" / "validation" / f"{name}.parquet"])
    return validate.text(Results("validate", name, (Part(None, reading),)))


def archived(study: ModuleType, file: str, root: Path) -> str:
    """One file of records that is older than plans; of cases from the field those of this tree."""
    path = root / "records" / file
    name = study.__name__.split(".")[-2].replace("_", "-")
    return str(study.text(Results(name, path.stem, (Part(None, table.read([path])),))))


def calibration(root: Path) -> str:
    files = table.record_files(root / "records" / "calibrations" / "h200")
    return calibrate.text(Results("calibrate", "h200", (Part(None, table.read(files)),)))


def fit(name: str, root: Path) -> str:
    files = table.record_files(root / "records" / "fit" / name)
    return fits.text(Results("fit", name, (Part(None, table.read(files)),)))


PAGES: Mapping[str, Render] = {
    "README.md": partial(screens, "h200", form=screen_report.block),
    "reports/first-light.md": partial(screens, "first-light"),
    "reports/main-table/report.md": partial(screens, "main-table"),
    "reports/h200.md": partial(screens, "h200"),
    "reports/h200-colocated.md": partial(screens, "h200-colocated"),
    "reports/validation/matrix.md": partial(validation, "matrix"),
    "reports/validation/h200-one-gpu.md": partial(validation, "h200-one-gpu"),
    "reports/validation/h200-two-gpus.md": partial(validation, "h200-two-gpus"),
    "reports/faults/h200.md": partial(archived, faults, "faults/h200.parquet"),
    "reports/sanitizer.md": partial(archived, sanitize, "sanitizer/h200.parquet"),
    "reports/device-tests.md": partial(archived, device_tests, "device-tests/h200.parquet"),
    "reports/calibrations/h200.md": calibration,
    "reports/fit/h100-nvlink.md": partial(fit, "h100-nvlink"),
    "reports/fit/h200-nvlink.md": partial(fit, "h200-nvlink"),
}
"""By the page's path in the tree; of README the generated block."""
