"""Record files: written once under a name of their own, verified, and read by explicit list.

A file is written under a name that starts with a dot, synced, linked to its final name and read back. A reader takes
files one by one, so that a damaged file costs itself alone: it is named, with the reason, and left where it is.
Parquet is read and written by the calling thread: files this small gain nothing from others, which outlive their work.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.records.errors import WriteError
from harness.records.old_files import own_name, write_once
from harness.records.schema import READABLE, SCHEMA_VERSION, Record, as_row, from_rows, schema_of, to_table

pa.set_cpu_count(1)
pa.set_io_thread_count(1)

_VERSION, _COUNT, _HASH = b"schema_version", b"num_records", b"content_sha256"


@dataclass(frozen=True)
class Quarantined:
    """A record file that cannot be trusted.

    Args:
        name: its file name.
        reason: what is wrong with it.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class Reading:
    """What a set of record files holds.

    Args:
        records: every record of every sound file, in order of file name.
        quarantined: the files that were left out, each with its reason.
        num_files: sound files read.
    """

    records: tuple[Record, ...]
    quarantined: tuple[Quarantined, ...]
    num_files: int


class _DamagedError(Exception):
    """A file whose content is not what its metadata says."""


def content_hash(records: Iterable[Record]) -> str:
    """sha256 over the records as canonical JSON lines, in order."""
    digest = hashlib.sha256()
    for record in records:
        digest.update(json.dumps(as_row(record), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def write(directory: Path, records: Sequence[Record]) -> Path:
    """Write the records of one process as one new file named after process key, attempt and a random part.

    Args:
        directory: where the file goes; made if missing.
        records: at least one, all of one process and attempt.

    Returns:
        The final path. No existing file is ever replaced.

    Raises:
        FieldError: a record that the schema refuses; nothing is written.
        WriteError: the file does not read back as written.
    """
    table = to_table(records)
    name = own_name(f"{records[0].process_key}-{records[0].attempt:03d}")
    final = write_once(directory, f"{name}.parquet", table.replace_schema_metadata(_metadata(records)))
    _verify(final, records)
    return final


def _metadata(records: Sequence[Record]) -> dict[bytes, bytes]:
    return {
        _VERSION: str(SCHEMA_VERSION).encode(),
        _COUNT: str(len(records)).encode(),
        _HASH: content_hash(records).encode(),
    }


def _verify(path: Path, records: Sequence[Record]) -> None:
    try:
        same = _read_file(path) == tuple(records)
    except (_DamagedError, OSError, pa.ArrowException) as error:
        raise WriteError(f"{path.name}: expected to read back, received {error}.", "Check the disk.") from error
    if not same:
        raise WriteError(f"{path.name}: expected the records as written, received others.", "Check the disk.")


def record_files(directory: Path) -> list[Path]:
    """The record files of a directory in order of name; names with a leading dot are unfinished and left out."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.glob("*.parquet") if not path.name.startswith("."))


def read(paths: Iterable[Path]) -> Reading:
    """Read record files one by one; a damaged one is quarantined by name and the others stay readable."""
    records: list[Record] = []
    quarantined: list[Quarantined] = []
    num_files = 0
    for path in paths:
        try:
            records.extend(_read_file(path))
            num_files += 1
        except (_DamagedError, OSError, ValueError, pa.ArrowException) as error:
            quarantined.append(Quarantined(path.name, " ".join(str(error).split()) or type(error).__name__))
    return Reading(tuple(records), tuple(quarantined), num_files)


def _read_file(path: Path) -> tuple[Record, ...]:
    with path.open("rb") as stream:
        table = pq.ParquetFile(stream).read(use_threads=False)
    metadata = table.schema.metadata or {}
    version = _version(metadata.get(_VERSION, b"none").decode())
    if not table.schema.remove_metadata().equals(schema_of(version)):
        raise _DamagedError("schema: its columns are not those of its schema version")
    records = from_rows(table.to_pylist())
    _expect("record count", metadata.get(_COUNT, b"none").decode(), str(len(records)))
    _expect("content hash", metadata.get(_HASH, b"none").decode(), content_hash(records))
    return records


def _version(text: str) -> int:
    readable = [str(version) for version in READABLE]
    if text not in readable:
        raise _DamagedError(f"schema version: expected {' or '.join(readable)}, received {text}")
    return int(text)


def _expect(what: str, expected: str, received: str) -> None:
    if expected != received:
        raise _DamagedError(f"{what}: expected {expected}, received {received}")
