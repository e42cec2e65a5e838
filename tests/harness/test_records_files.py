"""Record files: never overwritten, never half read, and one damaged file costs itself alone."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.ranks.exchanges import RoundTrip
from harness.records import WriteError, files, read, record_files, table, write
from tests.harness.samples import record

ROOT = Path(__file__).resolve().parents[2]
WRITER = """
import sys
from pathlib import Path
from harness.records import write
from tests.harness.samples import record
for _ in range(15):
    write(Path(sys.argv[1]), "x", [record(native_digest=sys.argv[2])])
"""


@pytest.mark.parametrize("kept", ["0", "4", "half", "len-1"])
def test_a_truncated_file_is_quarantined_by_name_and_the_others_stay_readable(tmp_path, kept):
    good, bad = (write(tmp_path, "x", [record(key=key)]) for key in ("good", "bad"))
    content = bad.read_bytes()
    bad.write_bytes(content[: {"0": 0, "4": 4, "half": len(content) // 2, "len-1": len(content) - 1}[kept]])
    reading = read([good, bad])
    assert [one["key"] for one in reading.rows] == ["good"]
    assert [one.name for one in reading.quarantined] == [bad.name]
    assert bad.exists()


def test_a_file_whose_values_were_changed_is_quarantined(tmp_path):
    path = write(tmp_path, "x", [record(latency_us=30.0)])
    metadata = pq.read_schema(path).metadata
    other = pq.read_table(write(tmp_path, "x", [record(latency_us=3.0)]))
    pq.write_table(other.replace_schema_metadata(metadata), path)
    (quarantined,) = read([path]).quarantined
    assert "expected the rows that were written, received others" in quarantined.reason


def test_a_file_that_is_gone_is_quarantined(tmp_path):
    (quarantined,) = read([tmp_path / "none.parquet"]).quarantined
    assert "No such file" in quarantined.reason


def test_unfinished_files_are_no_records(tmp_path):
    for name in (".q1-001-abc.parquet.tmp", ".hidden.parquet", "q1-001-abc.parquet.tmp"):
        (tmp_path / name).write_bytes(b"half")
    path = write(tmp_path, "x", [record()])
    assert record_files(tmp_path) == [path]


STEPS = ["write", "fsync", "check", "link"]


@pytest.mark.parametrize("step", STEPS)
def test_whatever_fails_on_the_way_leaves_no_file_and_no_temporary_one(tmp_path, monkeypatch, step):
    def fail(name):
        if name == step:
            raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(files, "reached", [fail])
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path, "x", [record()])
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_named_by_its_folder(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="disk full") as caught:
        write(tmp_path, "x", [record()])
    assert caught.value.filename == str(tmp_path)


def test_no_file_has_its_name_before_it_was_checked(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(files, "reached", [lambda step: seen.append((step, len(record_files(tmp_path))))])
    write(tmp_path, "x", [record()])
    assert seen == [(step, 0) for step in STEPS]
    assert len(record_files(tmp_path)) == 1


def test_a_file_that_reads_back_differently_is_an_error_and_is_not_published(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "_read_file", lambda _: [{"latency_us": 1.0}])
    with pytest.raises(WriteError, match="expected the rows as written, received others"):
        write(tmp_path, "x", [record()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("links", [True, False], ids=["with links", "without links"])
def test_an_existing_name_is_never_replaced(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(files.os, "link", no_links)
    monkeypatch.setattr(table.secrets, "token_hex", lambda _: "00000000")
    path = write(tmp_path, "x", [record(latency_us=30.0)])
    with pytest.raises(FileExistsError):
        write(tmp_path, "x", [record(latency_us=31.0)])
    assert read([path]).rows[0]["latency_us"] == 30.0
    assert list(tmp_path.iterdir()) == [path]


def no_links(*_):
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def test_a_file_system_without_hard_links_takes_records_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "link", no_links)
    path = write(tmp_path, "x", [record()])
    assert read([path]).of(RoundTrip) == (record(),)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("times", "read_well"), [(1, True), (2, True), (9, False)])
def test_a_file_that_is_stale_for_a_moment_is_read_again(tmp_path, monkeypatch, times, read_well):
    path, left, original = write(tmp_path, "x", [record()]), [None] * times, Path.open

    def stale(self, *arguments, **more):
        if self == path and left:
            left.pop()
            raise OSError(errno.ESTALE, "stale file handle")
        return original(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", stale)
    monkeypatch.setattr(table.time, "sleep", lambda _: None)
    reading = read([path])
    assert (len(reading.rows), len(reading.quarantined)) == ((1, 0) if read_well else (0, 1))


def test_simultaneous_writers_of_one_key_lose_nothing_and_no_read_fails(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), f"n0000000{index}"], cwd=ROOT)
        for index in range(2)
    ]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        assert read(record_files(tmp_path)).quarantined == ()
        reads += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert reads > 10
    assert len(read(record_files(tmp_path)).rows) == 30


@pytest.mark.parametrize("digest", ["n12345678", "n00123456", "n12e45678", "12345678", "00123456", "12e45678"])
def test_a_digest_stays_text_even_under_a_partition_like_path(tmp_path, digest):
    path = write(tmp_path / f"native_digest={digest}", "x", [record(native_digest=digest)])
    assert read([path]).rows[0]["native_digest"] == digest


def test_records_are_written_and_read_by_one_thread(tmp_path):
    read([write(tmp_path, "x", [record(), record(key="other")])])
    assert [pa.cpu_count(), pa.io_thread_count()] == [1, 1]


def test_a_missing_folder_holds_no_records(tmp_path):
    assert record_files(tmp_path / "none") == []


def test_a_replaced_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = files.replace(tmp_path / "page.md", b"one")
    monkeypatch.setattr(files, "reached", [lambda step: 1 / 0 if step == "rename" else None])
    with pytest.raises(ZeroDivisionError):
        files.replace(path, b"two")
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"one", [path])
