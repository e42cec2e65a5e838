"""Every archived record is still readable without the harness, is what it says it is, and is what was archived."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import samples
from tests.repo import plan_files, record_files
from tests.repo.plan_files import strangers
from tests.repo.record_files import RecordFile

GOLDEN = Path(__file__).parents[1] / "golden" / "archived_records.json"
SCREEN = Path("records/screen/first-light/records/p5e967a210d322941/qea6f1a2aa3de974b-001-1dac2197.parquet")
TABLE = Path("records/validate/matrix.parquet")
HUNT = Path("records/hunt/night.parquet")
PLAN = Path("records/screen/first-light/plans/p5e967a210d322941.json")


@pytest.fixture(scope="module")
def tables(files: list[Path], root: Path) -> dict[Path, RecordFile]:
    """Every Parquet file under records/, by its path in the tree."""
    paths = [path for path in files if path.suffix == ".parquet" and path.is_relative_to(root / "records")]
    return {path.relative_to(root): record_files.read(path) for path in paths}


@pytest.fixture(scope="module")
def plans(files: list[Path], root: Path) -> dict[Path, plan_files.Plan]:
    """Every plan file under records/, by its path in the tree."""
    paths = [path for path in files if path.relative_to(root).match("records/*/*/plans/p*.json")]
    return {path.relative_to(root): plan_files.read(path) for path in paths if ".round" not in path.name}


def record_faults(path: Path, file: RecordFile, plan: plan_files.Plan) -> list[str]:
    """Return what of a screen's record file does not belong to its plan."""
    expected = plan_files.records_of(plan)
    found = [fault for row in file.rows if (fault := plan_files.record_fault(row, expected))]
    first = file.rows[0]
    if not path.name.startswith(f"{first['process_key']}-{first['attempt']:03d}-"):
        found.append("the file is not named after its process and attempt")
    if {(row["process_key"], row["attempt"]) for row in file.rows} != {(first["process_key"], first["attempt"])}:
        found.append("the records are of several processes")
    return found


def plan_of(path: Path) -> Path:
    """The plan that a screen's record file lies under."""
    return path.parents[2] / "plans" / f"{path.parent.name}.json"


def with_value(file: RecordFile, column: str, value: object) -> RecordFile:
    """The file with another value in a column of its first row; what it says of itself stays."""
    return RecordFile(file.metadata, file.schema, [{**file.rows[0], column: value}, *file.rows[1:]])


def test_every_record_file_has_a_known_version_and_the_rows_that_it_was_written_with(
    tables: dict[Path, RecordFile],
) -> None:
    assert {file.version_key for file in tables.values()} | {"format"} == set(record_files.FORMATS)
    assert {str(path): fault for path, file in tables.items() if (fault := record_files.fault(file))} == {}


@pytest.mark.parametrize(
    ("path", "column", "value"),
    [(SCREEN, "latency_us", 20.0), (TABLE, "elements", 1), (HUNT, "seeds_run", 1)],
    ids=["screen", "table", "hunt"],
)
def test_a_changed_value_is_noticed(tmp_path: Path, root: Path, path: Path, column: str, value: object) -> None:
    file = record_files.read(root / path)
    assert file.rows[0][column] != value
    record_files.write(tmp_path / "copy.parquet", with_value(file, column, value))
    assert record_files.fault(record_files.read(tmp_path / "copy.parquet")) == "content hash is not that of its rows"
    record_files.write(tmp_path / "same.parquet", file)
    assert record_files.fault(record_files.read(tmp_path / "same.parquet")) is None


@pytest.mark.parametrize(
    ("metadata", "fault"),
    [
        ({"schema_version": "3"}, "schema_version is 3, not one of 1, 2"),
        ({"schema_version": "1"}, "another schema_version than 1"),
        ({"num_records": "5"}, "says 5 rows, holds 24"),
        ({"table_version": "1"}, "has 2 of the version keys"),
        ({"content_sha256": "0" * 64}, "content hash"),
    ],
    ids=["unknown version", "version of other rows", "count", "two versions", "hash"],
)
def test_a_file_that_says_something_else_of_itself_is_noticed(
    tables: dict[Path, RecordFile], metadata: dict[str, str], fault: str
) -> None:
    file = tables[SCREEN]
    altered = RecordFile({**file.metadata, **metadata}, file.schema, file.rows)
    assert fault in (record_files.fault(altered) or "")


def test_every_plan_has_the_hash_that_it_is_named_after(plans: dict[Path, plan_files.Plan]) -> None:
    assert len(plans) >= 12
    assert {str(path): fault for path, plan in plans.items() if (fault := plan_files.plan_fault(plan, path.stem))} == {}


@pytest.mark.parametrize(
    "alter",
    [
        lambda plan: {**plan, "screen": "other"},
        lambda plan: {**plan, "cells": plan["cells"][:-1]},
        lambda plan: {**plan, "exchange": {**plan["exchange"], "seed": 1}},
    ],
    ids=["screen", "cells", "seed"],
)
def test_a_plan_with_another_field_is_noticed(
    plans: dict[Path, plan_files.Plan], alter: Callable[[plan_files.Plan], plan_files.Plan]
) -> None:
    content = plans[PLAN]
    altered = {**content, "plan": alter(content["plan"])}
    assert (plan_files.plan_fault(altered, PLAN.stem) or "").startswith("has content of p")


def test_a_plan_under_another_name_is_noticed(plans: dict[Path, plan_files.Plan]) -> None:
    assert plan_files.plan_fault(plans[PLAN], "p0123456789abcdef") == f"has content of {PLAN.stem}"


def test_every_record_of_a_screen_is_as_its_plan_says(
    tables: dict[Path, RecordFile], plans: dict[Path, plan_files.Plan]
) -> None:
    screens = {path: file for path, file in tables.items() if file.version_key == "schema_version"}
    assert {plan_of(path) for path in screens} == {path for path in plans if plan_files.version_of(plans[path]) == 1}
    found = {str(path): record_faults(path, file, plans[plan_of(path)]["plan"]) for path, file in screens.items()}
    assert {name: faults for name, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("key", "k0123456789abcdef", "of no cell of the plan"),
        ("process_key", "q0123456789abcdef", "not as planned: process_key"),
        ("native_digest", "n0123456789abcdef", "not as planned: native_digest"),
        ("layout", "1A1F", "not as planned: layout"),
        ("latency_us", 20.0, "not the median"),
        ("attempt", 2, "not named after"),
    ],
)
def test_a_record_that_is_not_of_its_plan_is_noticed(
    tables: dict[Path, RecordFile], plans: dict[Path, plan_files.Plan], column: str, value: object, fault: str
) -> None:
    file = tables[SCREEN]
    assert record_faults(SCREEN, file, plans[PLAN]["plan"]) == []
    assert fault in record_faults(SCREEN, with_value(file, column, value), plans[PLAN]["plan"])[0]


def test_nothing_that_was_archived_is_gone_or_changed(files: list[Path], root: Path) -> None:
    frozen = json.loads(GOLDEN.read_text("utf-8"))
    assert len(frozen["tables"]) >= 114
    held = [path for path in files if path.is_relative_to(root / "records")]
    assert record_files.changes(frozen, record_files.inventory(held, root)) == []


def altered_copy(root: Path, folder: Path, alter: Callable[[RecordFile], RecordFile]) -> list[str]:
    """Return how a copy of a table, altered and sealed again, differs from the inventory of the original."""
    frozen = record_files.inventory([root / TABLE], root)
    copy = folder / TABLE
    copy.parent.mkdir(parents=True)
    record_files.write(copy, record_files.sealed(alter(record_files.read(root / TABLE))))
    assert record_files.fault(record_files.read(copy)) is None
    return record_files.changes(frozen, record_files.inventory([copy], folder))


def test_a_value_that_was_changed_with_its_hash_is_noticed(tmp_path: Path, root: Path) -> None:
    assert altered_copy(root, tmp_path, lambda file: with_value(file, "elements", 1)) == [f"{TABLE}: changed"]


def test_a_file_written_again_as_it_was_is_no_change(tmp_path: Path, root: Path) -> None:
    assert altered_copy(root, tmp_path, lambda file: file) == []


def test_a_file_that_is_gone_is_noticed_and_one_that_is_new_is_not(tmp_path: Path, root: Path) -> None:
    copy = Path(shutil.copytree(root / "records/screen/first-light", tmp_path / "records/screen/first-light"))
    before = record_files.inventory(copy.rglob("*"), tmp_path)
    (tmp_path / SCREEN).rename(tmp_path / SCREEN.with_name("new.parquet"))
    (tmp_path / PLAN).write_text("{}", "utf-8")
    after = record_files.inventory(copy.rglob("*"), tmp_path)
    assert record_files.changes(before, after) == [f"{SCREEN}: gone", f"{PLAN}: changed"]


def test_every_record_of_today_is_of_a_trial_of_its_plan(tables: dict[Path, RecordFile], root: Path) -> None:
    today = {path: file.rows for path, file in tables.items() if file.version_key == "format"}
    assert {str(path): bad for path, rows in today.items() if (bad := strangers(root / plan_of(path), rows))} == {}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A plan and a record file as they are written today."""
    own = samples.plan()
    folder = tmp_path_factory.mktemp("archive")
    path = samples.lay(folder, own, samples.records(own)).path
    return path, next(folder.rglob("*.parquet"))


def test_what_is_written_today_is_what_it_says_of_itself(written: tuple[Path, Path]) -> None:
    path, table = written
    file = record_files.read(table)
    assert plan_files.plan_fault(plan_files.read(path), path.stem) is None
    assert record_files.fault(file) is None
    assert strangers(path, file.rows) == []
    assert record_files.fault(with_value(file, "latency_us", 20.0)) == "content hash is not that of its rows"
    assert "says 16 rows, holds 15" in (record_files.fault(RecordFile(file.metadata, file.schema, file.rows[1:])) or "")


@pytest.mark.parametrize("column", ["key", "plan_hash"])
def test_a_record_of_today_of_another_plan_is_noticed(written: tuple[Path, Path], column: str) -> None:
    path, table = written
    altered = with_value(record_files.read(table), column, "0123456789abcdef")
    assert strangers(path, altered.rows) == [altered.rows[0]["key"]]
