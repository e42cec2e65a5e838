"""Every committed page holds the tables that were frozen, and its records still give them."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.repo import record_files
from tests.repo.rendering import PAGES
from tests.repo.report_tables import Table, differences, page_names, tables, text_of

GOLDEN = Path(__file__).parents[1] / "golden" / "report_tables.json"
FROZEN: dict[str, list[Table]] = json.loads(GOLDEN.read_text("utf-8"))

ALTERED = {
    "README.md": ("screen/h200/records/p91dbb1ad6ce4e673/q11c3afe47d663186-*.parquet", "latency_us"),
    "reports/screen/first-light.md": ("screen/first-light/records/*/*.parquet", "latency_us"),
    "reports/screen/main-table.md": ("screen/main-table/records/*/*.parquet", "latency_us"),
    "reports/screen/h200.md": ("screen/h200/records/p91dbb1ad6ce4e673/*.parquet", "latency_us"),
    "reports/screen/h200-colocated.md": ("screen/h200-colocated/records/*/*.parquet", "latency_us"),
    "reports/empty-exchange/h100-nvlink.md": ("empty-exchange/h100-nvlink/records/*/*.parquet", "latency_us"),
    "reports/empty-exchange/h200-one-gpu.md": ("empty-exchange/h200-one-gpu/records/*/*.parquet", "arm"),
    "reports/validate/h200-one-gpu-3-layouts.md": (
        "validate/h200-one-gpu-3-layouts/records/*/*.parquet",
        "elements",
    ),
    "reports/faults/h200-one-gpu.md": ("faults/h200-one-gpu/records/*/*.parquet", "seeds"),
    "reports/validate/matrix.md": ("validate/matrix.parquet", "elements"),
    "reports/validate/h200-one-gpu.md": ("validate/h200-one-gpu.parquet", "elements"),
    "reports/validate/h200-two-gpus.md": ("validate/h200-two-gpus.parquet", "elements"),
    "reports/faults/h200.md": ("faults/h200.parquet", "seeds"),
    "reports/hunt/night.md": ("hunt/night.parquet", "seeds_run"),
    "reports/sanitize/h200.md": ("sanitize/h200.parquet", "exchanges"),
    "reports/device-tests/h200.md": ("device-tests/h200.parquet", "outcome"),
    "reports/calibrate/h200.md": ("calibrate/h200/constants.parquet", "value"),
    "reports/fit/h100-nvlink.md": ("fit/h100-nvlink/cells.parquet", "simulated_baseline_us"),
    "reports/fit/h200-nvlink.md": ("fit/h200-nvlink/cells.parquet", "simulated_us"),
}
"""Of each page a file of its records and a column that its tables show."""


def other(value: float | str) -> float | str:
    """Another value of the same type, so far away that it shows after rounding."""
    return f"{value} not" if isinstance(value, str) else value + 1 if isinstance(value, int) else 1.5 * value


def alter(pattern: str, column: str, records: Path) -> None:
    """Give one row of a file, no FFN rank's, another value in a column where it has one, and seal the file again."""
    path = sorted(records.glob(pattern))[0]
    file = record_files.read(path)
    row = next(row for row in file.rows if row[column] is not None and row.get("role") != "ffn")
    row[column] = other(row[column])
    record_files.write(path, record_files.sealed(file))


def copy_of_records(root: Path, folder: Path, pattern: str) -> Path:
    """A copy of the records that a pattern begins with, as records/ of another tree."""
    kind = pattern.partition("/")[0]
    shutil.copytree(root / "records" / kind, folder / "records" / kind)
    return folder / "records"


def test_every_page_is_frozen_and_can_be_made_again(files: list[Path], root: Path) -> None:
    assert page_names(files, root) == sorted(FROZEN) == sorted(PAGES) == sorted(ALTERED)


def test_a_page_that_is_not_frozen_is_noticed(files: list[Path], root: Path) -> None:
    assert page_names([*files, root / "reports" / "new" / "page.md"], root) != sorted(FROZEN)


def pages_of_archives(files: list[Path], root: Path) -> list[str]:
    """The page of every archive: reports/STUDY/NAME.md of records/STUDY/NAME, a folder or one file."""
    kept = (
        path.relative_to(root) for path in files if path.suffix == ".parquet" and path.is_relative_to(root / "records")
    )
    return sorted({f"reports/{path.parts[1]}/{path.parts[2].removesuffix('.parquet')}.md" for path in kept})


def test_reports_mirror_records(files: list[Path], root: Path) -> None:
    assert ["README.md", *pages_of_archives(files, root)] == page_names(files, root)


@pytest.mark.parametrize(
    "place", ["validate/new.parquet", "validation/matrix.parquet", "screen/new/records/p0/q0.parquet"]
)
def test_an_archive_without_its_page_is_noticed(files: list[Path], root: Path, place: str) -> None:
    assert ["README.md", *pages_of_archives([*files, root / "records" / place], root)] != page_names(files, root)


@pytest.mark.parametrize("page", FROZEN)
def test_a_committed_page_has_the_frozen_tables(root: Path, page: str) -> None:
    assert FROZEN[page] != []
    assert differences(FROZEN[page], tables(text_of(root, page))) == []


@pytest.mark.parametrize("page", FROZEN)
def test_one_digit_of_a_committed_page_is_noticed(root: Path, page: str) -> None:
    text = text_of(root, page)
    altered = re.sub(r"(?m)^(\|.*?)(\d)", lambda found: found[1] + str((int(found[2]) + 1) % 10), text, count=1)
    assert altered != text
    assert len(differences(FROZEN[page], tables(altered))) == 1


@pytest.mark.parametrize("page", FROZEN)
def test_the_records_of_a_page_give_the_frozen_tables(root: Path, page: str) -> None:
    assert differences(FROZEN[page], tables(PAGES[page](root))) == []


@pytest.mark.parametrize("page", FROZEN)
def test_an_altered_record_shows_in_the_tables_of_its_page(tmp_path: Path, root: Path, page: str) -> None:
    pattern, column = ALTERED[page]
    alter(pattern, column, copy_of_records(root, tmp_path, pattern))
    assert differences(FROZEN[page], tables(PAGES[page](tmp_path))) != []


PAGE = (
    "# Title\n\n## 2A2F, random\n\n| T | us |\n| -: | --- |\n|  1 | 20.7 |\n|  8 | 24.8 |\n\n## End\n\n| a |\n| --- |\n"
)
EXPECTED = [{"of": "2A2F, random", "lines": ["T | us", "1 | 20.7", "8 | 24.8"]}, {"of": None, "lines": ["a"]}]


def test_a_table_is_its_header_and_its_lines_under_the_row_that_it_is_of() -> None:
    assert tables(PAGE) == EXPECTED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("20.7", "20.6"),
        ("| T |", "| tokens |"),
        ("|  8 | 24.8 |\n", ""),
        ("| a |\n| --- |\n", ""),
        ("2A2F, random", "2A2F, skew"),
        ("|  8 | 24.8 |", "|  8 | 24.8 | x |"),
    ],
    ids=["digit", "header", "line gone", "table gone", "row", "cell more"],
)
def test_a_change_of_a_table_is_noticed(old: str, new: str) -> None:
    assert PAGE.count(old) == 1
    assert len(differences(tables(PAGE), tables(PAGE.replace(old, new)))) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [("# Title", "# Another\n\nWith words."), ("|  1 | 20.7 |", "| 1 | 20.7  |"), ("## 2A2F", "### 2A2F")],
    ids=["prose", "padding", "level of a heading"],
)
def test_what_is_not_of_a_table_is_no_change(old: str, new: str) -> None:
    assert differences(tables(PAGE), tables(PAGE.replace(old, new))) == []
