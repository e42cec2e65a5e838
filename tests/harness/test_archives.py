"""Records that are kept in the repository, and records for other tools."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.desk import report
from harness.errors import HarnessError, UsageError
from harness.records.frames import NoRecordsError
from tests.harness.samples import lay, plan
from tests.harness.test_reports import says


def test_archived_records_give_the_same_page_beside_their_copy(measured):
    found, text = says(measured, report.archive, "name=once")
    assert found == 0
    assert "written: records/screen/once, reports/screen/once.md" in text
    kept = measured.root / "records" / "screen" / "once"
    assert [path.stem for path in (kept / "plans").iterdir()] == [measured.plan_file.plan_hash]
    page = (measured.root / "reports" / "screen" / "once.md").read_text()
    assert says(measured, report.run, "source=records/screen/once")[0] == 0
    assert (measured.root / "reports" / "screen" / "once.md").read_text() == page
    assert "21.6 (31.6" in page


def test_an_archive_that_is_there_goes_only_where_that_is_said_and_is_named(measured):
    kept = measured.root / "records" / "screen" / "twice"
    for old in (kept / "plans" / "p0.json", kept / "records" / "p0" / "q0.parquet"):
        old.parent.mkdir(parents=True, exist_ok=True)
        old.write_text("old")
    with pytest.raises(UsageError, match="name: expected a new one, received 'twice', which is there"):
        report.archive("screen", ["name=twice"], measured.desk)
    assert (kept / "plans" / "p0.json").read_text() == "old"
    found, text = says(measured, report.archive, "name=twice", "replace=true")
    assert found == 0
    assert "replaced: 2 files of records/screen/twice" in text
    assert [path.name for path in (kept / "records").iterdir()] == [measured.plan_file.plan_hash]


def test_an_archive_of_one_file_is_one_of_that_name(measured):
    old = measured.root / "records" / "screen" / "older.parquet"
    old.parent.mkdir(parents=True, exist_ok=True)
    old.write_text("old")
    with pytest.raises(UsageError, match="name: expected a new one, received 'older', which is there"):
        report.archive("screen", ["name=older"], measured.desk)
    found, text = says(measured, report.archive, "name=older", "replace=true")
    assert found == 0
    assert "replaced: 1 file of records/screen/older, older.parquet first" in text
    assert not old.exists()
    assert (old.with_suffix("") / "plans").is_dir()


@pytest.mark.parametrize("name", ["../x", "A", "a/b", "x" * 65])
def test_records_are_archived_under_a_plain_name_alone(measured, name):
    with pytest.raises(HarnessError, match="name: expected") as caught:
        report.archive("screen", [f"name={name}"], measured.desk)
    assert len(str(caught.value).splitlines()) == 2


def test_an_archive_that_finds_no_place_leaves_what_was_there(measured, monkeypatch):
    assert says(measured, report.archive, "name=stays")[0] == 0
    before = sorted((measured.root / "records" / "screen" / "stays").rglob("*"))

    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(report.files, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        report.archive("screen", ["name=stays", "replace=true"], measured.desk)
    assert sorted((measured.root / "records" / "screen" / "stays").rglob("*")) == before
    assert not list((measured.root / "records").rglob(".*"))


def test_records_without_their_plan_are_not_archived_again(measured):
    with pytest.raises(UsageError, match="expected plans with their records, received records alone"):
        report.archive("screen", ["name=alone", f"source={measured.record_files()[0]}"], measured.desk)
    assert not list((measured.root / "records").rglob("*alone*"))


READERS = {
    ".csv": pd.read_csv,
    ".json": lambda path: pd.DataFrame(json.loads(Path(path).read_text())),
    ".parquet": pd.read_parquet,
}


@pytest.mark.parametrize("kind", READERS)
def test_records_are_exported_with_every_row_and_column(measured, tmp_path, kind):
    path = tmp_path / f"new/out{kind}"
    found, text = says(measured, report.export, f"file={path}")
    table = READERS[kind](path)
    assert found == 0
    assert f"written: {path}, 8 rows of {len(table.columns)} columns" in text
    assert sorted(table["latency_us"]) == sorted(one.latency_us for one in measured.records())
    assert set(table["native_digest"]) == {measured.plan_file.plan.trees[0].native_digest("sim")}
    assert {"status", "reason", "num_experts", "samples_us", "run", "attempt"} <= set(table.columns)
    assert not list(path.parent.glob(".*"))


def test_archived_records_are_exported_under_the_names_of_today(measured, tmp_path):
    root = Path(__file__).resolve().parents[2]
    assert says(measured, report.export, f"source={root}/records/screen/main-table", f"file={tmp_path}/x.csv")[0] == 0
    table = pd.read_csv(tmp_path / "x.csv")
    assert {"num_experts", "status", "reason"} <= set(table.columns)
    assert {"experts", "void_reason", "fail_reason"}.isdisjoint(set(table.columns) - {"void_reason", "fail_reason"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file=x.xlsx", "file: expected one it knows, received '.xlsx'.\nValid: .csv, .json, .parquet"),
        ("file=there.csv", "file: expected a new one, received there.csv, which is there"),
        ("", "file: expected a value, received none"),
    ],
    ids=["another kind", "there", "none"],
)
def test_an_export_to_another_place_is_refused(measured, text, message):
    (measured.root / "there.csv").write_text("mine")
    with pytest.raises(HarnessError, match=message):
        report.export("screen", [text] if text else [], measured.desk)
    assert (measured.root / "there.csv").read_text() == "mine"


def test_an_export_that_finds_no_place_leaves_no_part_of_a_file(measured, tmp_path, monkeypatch):
    def cut(frame, path, **_):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(pd.DataFrame, "to_csv", cut)
    with pytest.raises(OSError, match="No space left"):
        report.export("screen", [f"file={tmp_path}/x.csv"], measured.desk)
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_no_records_says_so(bench, tmp_path):
    lay(bench.out(""), plan(), [])
    with pytest.raises(NoRecordsError, match="expected a folder or a file, received nothing of that name"):
        report.export("screen", [f"file={tmp_path}/x.csv"], bench.desk)


FULL = """
import resource, sys
from pathlib import Path
from harness import cli
from tests.harness.conftest import Bench
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
root = Path(sys.argv[1])
sys.exit(cli.main(["screen", "archive", "name=full"], Bench(root, {}).desk))
"""


def test_a_file_that_grows_too_large_is_an_error_of_two_lines_that_names_its_folder(measured):
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", FULL, str(measured.root)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    problem, _ = done.stderr.splitlines()
    assert "records/" in problem
    assert "File too large" in problem
    assert not (measured.root / "records" / "screen" / "full").exists()
