"""Archived records are verified and read with the names of today, and `frame` gives them to people."""

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import harness.records
from harness.ranks.exchanges import RoundTrip
from harness.records import DamagedError, frame, read, record_files, write
from harness.records.archived import KINDS
from harness.records.envelope import STATUSES
from harness.records.frames import NoRecordsError
from tests.harness.samples import record

RECORDS = Path(__file__).resolve().parents[2] / "records"
FIRST, MAIN, HUNT = (RECORDS / name for name in ("screen/first-light", "screen/main-table", "hunt/night.parquet"))
FOLDERS = sorted(path.name for path in RECORDS.iterdir() if path.is_dir() and record_files(path))
ONE_NAME = {
    "num_experts": {"experts"},
    "status": {"outcome_status"},
    "reason": {"void_reason", "fail_reason"},
}
"""By fact the name that it has, and names that it had: none of them may be a column of a record of today."""


@pytest.fixture(scope="module")
def archived():
    """By folder everything that is archived in it."""
    return {name: read(record_files(RECORDS / name)) for name in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_archived_file_is_sound_and_of_a_known_table(archived, folder):
    reading = archived[folder]
    assert reading.quarantined == ()
    assert reading.rows
    assert {row["table"] for row in reading.rows} <= {kind.table for kind in KINDS}


def test_both_versions_of_archived_screens_are_round_trips_of_today(archived):
    assert len(list(RECORDS.glob("screen/*"))) >= 4
    versions = Counter(row["schema_version"] for row in archived["screen"].rows)
    rows = archived["screen"].of(RoundTrip)
    assert set(versions) <= {1, 2}
    assert len(rows) == sum(versions.values()) > 1000
    assert {row.num_experts for row in rows} == {96, 128}
    assert {row.study for row in rows} == {"screen"}
    assert {(row.status, row.reason) for row in rows} == {("ok", None)}


def test_the_columns_of_the_second_version_are_absent_in_the_first_and_default_to_none():
    rows = read(record_files(FIRST)).of(RoundTrip)
    assert {(row.host_us, row.host_calls) for row in rows} == {(None, None)}
    assert {row.attempt for row in rows} == {1}


def test_a_fact_has_one_name_in_every_record(archived):
    for reading in archived.values():
        for row in reading.rows:
            assert "experts" not in row
            if "study" in row and "status" in row:
                assert row["status"] in STATUSES
                assert (row["status"] != "ok") == isinstance(row["reason"], str)
    names = set(harness.records.schema(RoundTrip).names)
    assert not any(old & names for old in ONE_NAME.values())


def copied(folder: Path, change) -> Path:
    """An archived file with changed rows, which says of itself what the original says."""
    source = record_files(FIRST)[0]
    table = pq.read_table(source)
    path = folder / source.name
    changed = table.from_pylist(change(table.to_pylist()), schema=table.schema)
    pq.write_table(changed, path)
    return path


CHANGES = {
    "a figure": lambda rows: [{**rows[0], "latency_us": 1.0}, *rows[1:]],
    "a row less": lambda rows: rows[1:],
    "the order": lambda rows: rows[::-1],
}


@pytest.mark.parametrize("kind", CHANGES)
def test_an_altered_archived_file_is_quarantined(tmp_path, kind):
    (quarantined,) = read([copied(tmp_path, CHANGES[kind])]).quarantined
    assert "expected the rows that were written, received others" in quarantined.reason
    assert read([copied(tmp_path, lambda rows: rows)]).quarantined == ()


def test_a_frame_of_archived_screens_has_the_names_of_today():
    table = frame(MAIN)
    assert isinstance(table, pd.DataFrame)
    assert {"num_experts", "latency_us", "status", "reason", "native_digest"} <= set(table.columns)
    assert "experts" not in table.columns
    assert (len(table), set(table["status"])) == (len(read(record_files(MAIN)).rows), {"ok"})


def test_a_frame_takes_folders_and_files_of_several_formats_together(tmp_path):
    path = write(tmp_path / "new", "x", [record(latency_us=12.5)])
    table = frame([FIRST, str(path)])
    assert table["latency_us"].iloc[-1] == 12.5
    assert table["run"].notna().sum() == 1  # a column that archived files lack
    assert table["num_experts"].notna().all()


def test_a_frame_is_of_one_table():
    with pytest.raises(NoRecordsError, match="expected records of one table, received") as caught:
        frame([FIRST, HUNT])
    assert "round_trips" in caught.value.next_step
    assert len(frame([FIRST, HUNT], "round_trips")) == len(frame(FIRST))


@pytest.mark.parametrize("table", [None, "nothing"])
def test_a_frame_of_nothing_is_an_error(tmp_path, table):
    with pytest.raises(NoRecordsError, match="received no records"):
        frame(tmp_path, table)


def test_a_frame_of_a_damaged_file_names_it(tmp_path):
    path = write(tmp_path, "x", [record()])
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DamagedError, match=path.name):
        frame(tmp_path)


def test_rows_are_plain_data(archived):
    row = archived["screen"].rows[0]
    assert json.loads(json.dumps(row))["samples_us"] == list(row["samples_us"])


def test_a_place_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NoRecordsError, match=r"gone: expected a folder or a file, received nothing of that name\."):
        frame([FIRST, tmp_path / "gone"])
