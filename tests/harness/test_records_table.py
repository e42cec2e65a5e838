"""The schema of a record: explicit, never guessed, and no figure that no exchange can take."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.ranks.exchanges import RoundTrip
from harness.records import FieldError, Row, read, record_files, schema, write
from tests.harness.samples import record

GOLDEN = Path(__file__).parent / "golden" / "schema.txt"
SCHEMA = schema(RoundTrip)
OTHERS_RELY_ON = """backend layout hidden dtype routing tokens bucket arm native_digest rank role pair latency_us status
    reason collect mode ranks_per_gpu transport_sms num_experts run attempt created machine"""
KEYS = [one.name for one in dataclasses.fields(RoundTrip) if not SCHEMA.field(one.name).nullable]


def test_the_schema_is_the_golden_one():
    assert SCHEMA.to_string() + "\n" == GOLDEN.read_text()


def test_columns_that_others_rely_on_are_there():
    assert set(OTHERS_RELY_ON.split()) <= set(SCHEMA.names)


@pytest.mark.parametrize("name", KEYS)
def test_a_null_key_is_refused_at_write(tmp_path, name):
    with pytest.raises(FieldError, match=f"record field {name}: expected .*, received None"):
        write(tmp_path / "new", "x", [record(**{name: None})])
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("tokens", 8.0), ("tokens", "8"), ("tokens", True), ("latency_us", 20), ("layout", 244)],
        *[("samples_us", [1.0]), ("samples_us", (1,)), ("safe_path", 1), ("sm_mhz", (1980,))],
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused_and_never_cast(tmp_path, name, value):
    with pytest.raises(FieldError, match=f"record field {name}: expected"):
        write(tmp_path, "x", [record(**{name: value})])
    assert list(tmp_path.iterdir()) == []


NO_FIGURES = [math.nan, math.inf, -math.inf, 0.0, -1.0]


@pytest.mark.parametrize("value", NO_FIGURES, ids=str)
@pytest.mark.parametrize("change", ["latency_us", "samples_us"])
def test_a_round_trip_that_no_exchange_takes_is_refused_with_all_rows_beside_it(tmp_path, change, value):
    wrong = record(**{change: value if change == "latency_us" else (30.0, value)})
    with pytest.raises(FieldError, match=f"record field {change}: expected f.*, received") as caught:
        write(tmp_path, "x", [record(), wrong])
    assert len(str(caught.value).splitlines()) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("value", "taken"), [(0.0, True), (-1.0, True), (math.nan, False)], ids=str)
def test_another_figure_may_be_zero_and_yet_must_be_finite(tmp_path, value, taken):
    if taken:
        assert read([write(tmp_path, "x", [record(host_us=value)])]).rows[0]["host_us"] == value
    else:
        with pytest.raises(FieldError, match="record field host_us: expected finite figures"):
            write(tmp_path, "x", [record(host_us=value)])


@pytest.mark.parametrize(
    ("status", "reason"), [("failed", None), ("void", None), ("ok", "because"), ("fine", None), ("fine", "because")]
)
def test_a_record_is_ok_or_says_why_not(tmp_path, status, reason):
    with pytest.raises(FieldError, match=r"expected ok, failed, void and a reason for all but ok, received"):
        write(tmp_path, "x", [record(status=status, reason=reason)])


def test_an_all_null_column_keeps_its_type_beside_a_filled_one(tmp_path):
    first = write(tmp_path, "a", [record(key="k1")])
    second = write(tmp_path, "b", [record(key="k2", status="void", reason="drift", latency_us=None)])
    assert {pq.read_schema(path).field("reason").type for path in (first, second)} == {pa.string()}
    assert [row["reason"] for row in read([first, second]).rows] == [None, "drift"]


def test_what_is_written_reads_back_as_it_was(tmp_path):
    written = [record(rank=1, key="k1"), record(rank=2, key="k2", latency_us=31.5, sm_mhz=(1980.0, 1755.0))]
    assert list(read([write(tmp_path, "x", written)]).of(RoundTrip)) == written


@dataclass(frozen=True, kw_only=True)
class Older(Row):
    """The same table before a column was added, beside one that is gone."""

    table: ClassVar[str] = "round_trips"

    key: str = ""
    latency_us: float = 0.0
    gone: str = "x"


def test_a_column_that_a_file_lacks_has_its_default_and_one_too_many_is_left_out(tmp_path):
    (row,) = read([write(tmp_path, "x", [Older(key="k1", latency_us=3.0)])]).of(RoundTrip)
    assert (row.key, row.latency_us, row.tokens, row.reason) == ("k1", 3.0, 0, None)


@dataclass(frozen=True, kw_only=True)
class Other(Row):
    """Another table."""

    table: ClassVar[str] = "others"

    key: str = ""


def test_rows_are_of_their_table_alone(tmp_path):
    found = read([write(tmp_path, "x", [record()]), write(tmp_path, "y", [Other(key="k9")])])
    assert [row.key for row in found.of(Other)] == ["k9"]
    assert len(found.of(RoundTrip)) == 1


def foreign(folder: Path, change: Any) -> Path:
    """A record file with another schema, as somebody else might have left it."""
    table = pq.read_table(write(folder, "good", [record()]))
    target = folder / "foreign.parquet"
    pq.write_table(change(table), target)
    return target


FLOAT_TOKENS = SCHEMA.set(SCHEMA.get_field_index("tokens"), pa.field("tokens", pa.float64(), False))
RECORD_FILE = "expected a record file, received another table"
CHANGES = {
    "float tokens": (lambda table: table.cast(FLOAT_TOKENS.with_metadata(table.schema.metadata)), "the rows that were"),
    "a column less": (lambda table: table.drop_columns(["reason"]), "the rows that were written, received others"),
    "a row less": (lambda table: table.slice(1), "the rows that were written, received others"),
    "another format": (lambda table: table.replace_schema_metadata({b"format": b"99"}), RECORD_FILE),
    "no format": (lambda table: table.replace_schema_metadata({}), RECORD_FILE),
    "another table": (lambda table: pa.table({"a": [1]}), RECORD_FILE),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_file_of_another_schema_is_quarantined_beside_readable_ones(tmp_path, kind):
    change, reason = CHANGES[kind]
    bad = foreign(tmp_path, change)
    reading = read(record_files(tmp_path))
    assert [one.name for one in reading.quarantined] == [bad.name]
    assert reason in reading.quarantined[0].reason
    assert (len(reading.rows), reading.num_files) == (1, 1)
