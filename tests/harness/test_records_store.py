"""Record files: never overwritten, never half read, and one damaged file costs itself alone."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import records
from harness.records import WriteError
from tests.harness.samples import record

ROOT = Path(__file__).resolve().parents[2]
WRITER = """
import sys
from pathlib import Path
from harness import records
from tests.harness.samples import record
for _ in range(15):
    records.write(Path(sys.argv[1]), [record(native_digest=sys.argv[2])])
"""


def test_what_is_written_reads_back_in_order(tmp_path):
    written = [record(rank=1, key="k1"), record(rank=2, key="k2", latency_us=31.5)]
    path = records.write(tmp_path, written)
    assert list(records.read([path]).records) == written


@pytest.mark.parametrize("kept", ["0", "4", "half", "len-1"])
def test_a_truncated_file_is_quarantined_by_name_and_the_others_stay_readable(tmp_path, kept):
    good = records.write(tmp_path, [record(key="good")])
    bad = records.write(tmp_path, [record(key="bad")])
    content = bad.read_bytes()
    bad.write_bytes(content[: {"0": 0, "4": 4, "half": len(content) // 2, "len-1": len(content) - 1}[kept]])
    reading = records.read([good, bad])
    assert [one.key for one in reading.records] == ["good"]
    assert [one.name for one in reading.quarantined] == [bad.name]
    assert bad.exists()


def test_a_file_whose_values_were_changed_is_quarantined(tmp_path):
    path = records.write(tmp_path, [record(latency_us=30.0)])
    metadata = pq.read_schema(path).metadata
    other = pq.read_table(records.write(tmp_path, [record(latency_us=3.0)]))
    pq.write_table(other.replace_schema_metadata(metadata), path)
    (quarantined,) = records.read([path]).quarantined
    assert "content hash" in quarantined.reason


def test_unfinished_files_are_no_records(tmp_path):
    (tmp_path / ".q1-001-abc.parquet.tmp").write_bytes(b"half")
    (tmp_path / ".hidden.parquet").write_bytes(b"half")
    (tmp_path / "q1-001-abc.parquet.tmp").write_bytes(b"half")
    path = records.write(tmp_path, [record()])
    assert records.record_files(tmp_path) == [path]


def test_a_failed_write_leaves_no_record_file(tmp_path, monkeypatch):
    monkeypatch.setattr(records.files.os, "link", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        records.write(tmp_path, [record()])
    assert records.record_files(tmp_path) == []


def test_a_file_that_reads_back_differently_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(records.store, "_read_file", lambda _: (record(latency_us=1.0),))
    with pytest.raises(WriteError, match="expected the records as written, received others"):
        records.write(tmp_path, [record()])


def test_an_existing_name_is_never_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(records.files.secrets, "token_hex", lambda _: "00000000")
    path = records.write(tmp_path, [record(latency_us=30.0)])
    with pytest.raises(FileExistsError):
        records.write(tmp_path, [record(latency_us=31.0)])
    assert records.read([path]).records[0].latency_us == 30.0


def test_simultaneous_writers_of_one_key_lose_nothing_and_no_read_fails(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), f"n0000000{index}"], cwd=ROOT)
        for index in range(2)
    ]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        assert records.read(records.record_files(tmp_path)).quarantined == ()
        reads += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert reads > 10
    assert len(records.read(records.record_files(tmp_path)).records) == 30


@pytest.mark.parametrize("digest", ["n12345678", "n00123456", "n12e45678", "12345678", "00123456", "12e45678"])
def test_a_digest_stays_text_even_under_a_partition_like_path(tmp_path, digest):
    path = records.write(tmp_path / f"native_digest={digest}", [record(native_digest=digest)])
    assert records.read([path]).records[0].native_digest == digest


def test_records_are_written_and_read_by_one_thread(tmp_path):
    records.read([records.write(tmp_path, [record(), record(key="other")])])
    assert [pa.cpu_count(), pa.io_thread_count()] == [1, 1]


def test_a_missing_folder_holds_no_records(tmp_path):
    assert records.record_files(tmp_path / "none") == []
