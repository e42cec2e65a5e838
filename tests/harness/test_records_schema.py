"""The schema of a record: explicit, versioned, never guessed and never null in a key."""

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import records
from harness.records import SCHEMA, FieldError, Record, schema, store
from harness.workspace import REPOSITORY
from tests.harness.samples import record

GOLDEN = Path(__file__).parent / "golden" / "schema.txt"
OTHERS_RELY_ON = """backend layout hidden dtype routing tokens bucket arm native_digest rank role pair latency_us status
    void_reason collect mode ranks_per_gpu transport_sms schema_version"""
KEYS = [field.name for field in dataclasses.fields(Record) if not SCHEMA.field(field.name).nullable]


def test_the_schema_is_the_golden_one():
    assert SCHEMA.to_string() + "\n" == GOLDEN.read_text()


def test_columns_that_others_rely_on_are_there():
    assert set(OTHERS_RELY_ON.split()) <= set(SCHEMA.names)


@pytest.mark.parametrize("name", KEYS)
def test_a_null_key_is_refused_at_write(tmp_path, name):
    with pytest.raises(FieldError, match=f"record field {name}: expected a value, received null"):
        records.write(tmp_path, [record(**{name: None})])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("tokens", 8.0), ("tokens", "8"), ("tokens", True), ("latency_us", 20), ("layout", 244), ("samples_us", [1.0])],
)
def test_a_value_of_another_type_is_refused_and_never_cast(name, value):
    with pytest.raises(FieldError, match=f"record field {name}: expected"):
        records.write(Path("unused"), [record(**{name: value})])


@pytest.mark.parametrize("status", ["failed", "void"])
def test_a_record_that_is_not_ok_says_why(status):
    with pytest.raises(FieldError, match="reason, received null"):
        records.write(Path("unused"), [record(status=status)])


def test_an_unknown_status_is_refused():
    with pytest.raises(FieldError, match="expected one of ok, failed, void, received 'fine'"):
        records.write(Path("unused"), [record(status="fine")])


def test_an_all_null_column_keeps_its_type_beside_a_filled_one(tmp_path):
    first = records.write(tmp_path, [record(key="k1")])
    second = records.write(tmp_path, [record(key="k2", status="void", void_reason="drift", latency_us=None)])
    assert {pq.read_schema(path).field("void_reason").type for path in (first, second)} == {pa.string()}
    assert sorted(str(one.void_reason) for one in records.read([first, second]).records) == ["None", "drift"]


def test_a_missing_reason_reads_back_as_none(tmp_path):
    (back,) = records.read([records.write(tmp_path, [record()])]).records
    assert back.void_reason is None
    assert back == record()


def foreign(path: Path, change: Any) -> Path:
    """A record file with another schema, as an older or newer writer might have left it."""
    table = pq.read_table(records.write(path, [record()]))
    target = path / "q1-002-foreign.parquet"
    pq.write_table(change(table), target)
    return target


FLOAT_TOKENS = SCHEMA.set(SCHEMA.get_field_index("tokens"), pa.field("tokens", pa.float64(), False))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: table.cast(FLOAT_TOKENS.with_metadata(table.schema.metadata)), "columns"),
        (lambda table: table.drop_columns(["void_reason"]), "columns"),
        (
            lambda table: table.replace_schema_metadata({b"schema_version": b"99"}),
            "schema version: expected 1 or 2, received 99",
        ),
    ],
    ids=["float tokens", "a column less", "another version"],
)
def test_a_file_of_another_schema_is_quarantined_beside_readable_ones(tmp_path, change, reason):
    bad = foreign(tmp_path, change)
    reading = records.read(records.record_files(tmp_path))
    assert [one.name for one in reading.quarantined] == [bad.name]
    assert reason in reading.quarantined[0].reason
    assert len(reading.records) == 1


def test_a_file_of_the_first_version_reads_as_records_without_its_later_columns(tmp_path, monkeypatch):
    old = record(schema_version=1)
    monkeypatch.setattr(store, "to_table", lambda rows: schema.to_table(rows).select(schema.schema_of(1).names))
    monkeypatch.setattr(store, "SCHEMA_VERSION", 1)
    (back,) = records.read([records.write(tmp_path, [old])]).records
    assert back == old
    assert (back.host_us, back.host_calls, back.observed) == (None, None, None)


def test_kept_records_of_the_first_version_are_read():
    reading = records.read(records.record_files(REPOSITORY / "records" / "h200"))
    assert reading.quarantined == ()
    assert {one.schema_version for one in reading.records} <= set(schema.READABLE)
