"""Every page made again from its records: the one place here that knows the code that makes them.

Each entry of `PAGES` takes the root of a tree, reads that tree's records/, and returns the page's text, without
pictures. Figures that were published by others, and cases from the field, are those of this tree.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import study
from harness.desk import select
from harness.desk.desk import real
from harness.report.results import Results
from harness.studies.screen import report as screen_report

Render = Callable[[Path], str]


def archived(name: str, archive: str, root: Path) -> Results:
    """What the records of an archive say: a folder of plans, or of tables, or one file."""
    folder = root / "records" / name / archive
    source = folder if folder.is_dir() else folder.with_suffix(".parquet")
    return select.select(name, {"source": str(source), "plan": select.ALL}, replace(real(), root=root))


def page(path: str, root: Path) -> str:
    """The page reports/STUDY/NAME.md, of the records records/STUDY/NAME."""
    _, name, _ = Path(path).parts
    module: Any = study.report(name)
    return str(module.text(archived(name, Path(path).stem, root)))


def block(root: Path) -> str:
    """The generated block of README."""
    return screen_report.block(archived("screen", "h200", root))


ARCHIVED = (
    "reports/calibrate/h200.md",
    "reports/device-tests/h200.md",
    "reports/empty-exchange/h100-nvlink.md",
    "reports/empty-exchange/h200-one-gpu.md",
    "reports/faults/h200-one-gpu.md",
    "reports/faults/h200.md",
    "reports/fit/h100-nvlink.md",
    "reports/fit/h200-nvlink.md",
    "reports/hunt/night.md",
    "reports/sanitize/h200.md",
    "reports/screen/first-light.md",
    "reports/screen/h200-colocated.md",
    "reports/screen/h200.md",
    "reports/screen/main-table.md",
    "reports/validate/h200-one-gpu-3-layouts.md",
    "reports/validate/h200-one-gpu.md",
    "reports/validate/h200-two-gpus.md",
    "reports/validate/matrix.md",
)
PAGES: Mapping[str, Render] = {"README.md": block, **{path: partial(page, path) for path in ARCHIVED}}
"""By the page's path in the tree; of README the generated block."""
