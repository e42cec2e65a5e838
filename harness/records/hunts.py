"""Records of hunts: one row for each arm that was hunted, in a file of its own for each command."""

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.records.errors import RecordError
from harness.records.files import write_once

HUNT_SCHEMA_VERSION = 1
_VERSION, _HASH = b"hunt_schema_version", b"content_sha256"


@dataclass(frozen=True, kw_only=True)
class HuntRecord:
    """The hunt of one arm.

    Args:
        command: as it was typed.
        created: when it ended, in UTC.
        native_digest: of the library that was hunted, as it reports it.
        protocol: the kernels that it ran.
        hunt: what its seeds exchange, as JSON.
        first_seed, last_seed: of the seeds that were asked for.
        seeds_run: how many of them ran.
        failed_seeds: those that failed, in order.
        findings: how each of them fails, in words.
    """

    command: str
    created: str
    native_digest: str
    protocol: str
    arm: str
    hunt: str
    first_seed: int
    last_seed: int
    seeds_run: int
    failed_seeds: tuple[int, ...]
    findings: tuple[str, ...]


_ARROW = {
    str: pa.string(),
    int: pa.int64(),
    tuple[int, ...]: pa.list_(pa.int64()),
    tuple[str, ...]: pa.list_(pa.string()),
}

HUNT_SCHEMA: pa.Schema = pa.schema([pa.field(f.name, _ARROW[f.type], False) for f in dataclasses.fields(HuntRecord)])  # type: ignore[index]


class DamagedHuntError(RecordError, ValueError):
    """A hunt file whose content is not what its metadata says."""


def write_hunts(directory: Path, records: Sequence[HuntRecord], name: str | None = None) -> Path:
    """Write the records of one command as a new file, under a random name where none is given.

    Raises:
        FileExistsError: there is a file of that name.
    """
    table = pa.Table.from_pylist([dataclasses.asdict(record) for record in records], schema=HUNT_SCHEMA)
    metadata = {_VERSION: str(HUNT_SCHEMA_VERSION).encode(), _HASH: _content_hash(records).encode()}
    file_name = f"{name or f'hunt-{secrets.token_hex(4)}'}.parquet"
    return write_once(directory, file_name, table.replace_schema_metadata(metadata))


def read_hunts(path: Path) -> tuple[HuntRecord, ...]:
    """The records of one file.

    Raises:
        DamagedHuntError: another version or schema, or other rows than were written.
    """
    with path.open("rb") as stream:
        table = pq.ParquetFile(stream).read(use_threads=False)
    metadata = table.schema.metadata or {}
    _expect(path, "version", str(HUNT_SCHEMA_VERSION), metadata.get(_VERSION, b"none").decode())
    _expect(path, "schema", "as this version has it", _schema_kind(table.schema))
    records = tuple(map(_from_row, table.to_pylist()))
    _expect(path, "content hash", metadata.get(_HASH, b"none").decode(), _content_hash(records))
    return records


def _schema_kind(schema: pa.Schema) -> str:
    return "as this version has it" if schema.remove_metadata().equals(HUNT_SCHEMA) else str(schema.names)


def _from_row(row: dict[str, Any]) -> HuntRecord:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    return HuntRecord(**fields)


def _content_hash(records: Sequence[HuntRecord]) -> str:
    rows = [json.dumps(dataclasses.asdict(record), sort_keys=True) for record in records]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _expect(path: Path, what: str, expected: str, received: str) -> None:
    if expected != received:
        raise DamagedHuntError(
            f"{path.name}: {what}: expected {expected!r}, received {received!r}.",
            "Hunt again; keep this file to look at.",
        )
