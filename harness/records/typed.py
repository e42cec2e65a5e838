"""Tables of one dataclass: its fields give the Arrow schema, and each file says its version and content hash."""

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from harness.records.errors import RecordError
from harness.records.old_files import write_once

_VERSION = "table_version"
_HASH = b"content_sha256"
_AGAIN = "Make it again; keep this file to look at."

_ARROW: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple[float, ...]: pa.list_(pa.float64()),
    tuple[int, ...]: pa.list_(pa.int64()),
    tuple[str, ...]: pa.list_(pa.string()),
}

T = TypeVar("T")


class DamagedTableError(RecordError, ValueError):
    """A table file whose content is not what its metadata says."""


def schema(kind: type[Any]) -> pa.Schema:
    """The Arrow schema of a dataclass; a field that may be None is nullable, no other is."""
    return pa.schema([_field(one) for one in dataclasses.fields(kind)])


def write_table(directory: Path, name: str, version: int, rows: Sequence[Any], key: str = _VERSION) -> Path:
    """Write at least one row, all of one dataclass, as the new file NAME.parquet.

    Args:
        directory: takes the file.
        name: of the file.
        version: of the dataclass.
        rows: what is written.
        key: of the version in the file's metadata.

    Raises:
        FileExistsError: there is a file of that name.
    """
    table = pa.Table.from_pylist([dataclasses.asdict(row) for row in rows], schema=schema(type(rows[0])))
    metadata = {key.encode(): str(version).encode(), _HASH: content_hash(rows).encode()}
    return write_once(directory, f"{name}.parquet", table.replace_schema_metadata(metadata))


def read_table(path: Path, version: int, kind: type[T], key: str = _VERSION) -> tuple[T, ...]:
    """The rows of one file.

    Args:
        path: of the file.
        version: of the dataclass.
        kind: the dataclass.
        key: of the version in the file's metadata.

    Raises:
        DamagedTableError: no table, another version or schema, or other rows than were written.
    """
    with path.open("rb") as stream:
        table = _parsed(path, stream)
    metadata = table.schema.metadata or {}
    _expect(path, "version", str(version), metadata.get(key.encode(), b"none").decode())
    found = table.schema.remove_metadata()
    _expect(path, "schema", str(schema(kind).names), "another" if not found.equals(schema(kind)) else str(found.names))
    rows = tuple(kind(**{name: _plain(value) for name, value in row.items()}) for row in table.to_pylist())
    _expect(path, "content hash", metadata.get(_HASH, b"none").decode(), content_hash(rows))
    return rows


def write_folder(directory: Path, version: int, run: Any, tables: Mapping[str, Sequence[Any]]) -> Path:
    """Write tables by name into a folder, and last the one row of its run: a folder that has it is complete.

    Args:
        directory: the folder.
        version: of all its dataclasses.
        run: the row.
        tables: rows by name, at least one each.

    Returns:
        The folder.

    Raises:
        FileExistsError: a file of such a name is there.
    """
    for name, rows in tables.items():
        write_table(directory, name, version, rows)
    write_table(directory, "run", version, [run])
    return directory


def read_run(directory: Path, version: int, kind: type[T]) -> T:
    """The run of a folder.

    Raises:
        DamagedTableError: as in `read_table`.
    """
    (run,) = read_table(directory / "run.parquet", version, kind)
    return run


def read_tables(directory: Path, version: int, kinds: Mapping[str, type[Any]]) -> dict[str, Any]:
    """The rows of tables in a folder, by name, each of its dataclass.

    Raises:
        DamagedTableError: as in `read_table`.
    """
    return {name: read_table(directory / f"{name}.parquet", version, kind) for name, kind in kinds.items()}


def content_hash(rows: Sequence[Any]) -> str:
    """sha256 over the rows as canonical JSON lines, in order."""
    lines = [json.dumps(dataclasses.asdict(row), sort_keys=True) for row in rows]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _parsed(path: Path, stream: BinaryIO) -> pa.Table:
    try:
        return pq.ParquetFile(stream).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:  # OSError: one that ends early
        received = " ".join(str(error).split())
        raise DamagedTableError(
            f"{path.name}: expected a table, received one that cannot be read: {received}", _AGAIN
        ) from error


def _field(one: dataclasses.Field[Any]) -> pa.Field:
    inner: Any = one.type
    nullable = isinstance(inner, types.UnionType)
    if nullable:
        (inner,) = (arg for arg in typing.get_args(inner) if arg is not type(None))
    return pa.field(one.name, _ARROW[inner], nullable)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _expect(path: Path, what: str, expected: str, received: str) -> None:
    if expected != received:
        raise DamagedTableError(
            f"{path.name}: {what}: expected {expected!r}, received {received!r}.",
            _AGAIN,
        )
