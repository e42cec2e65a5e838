"""Tables of one dataclass as Parquet files: its fields give the Arrow schema, and each file says what it holds.

Parquet is read and written by the calling thread: files this small gain nothing from others, which outlive their work.
"""

import dataclasses
import hashlib
import io
import json
import math
import secrets
import time
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from harness.records import archived, files
from harness.records.envelope import FAILED, OK, STATUSES, VOID, Envelope, Row
from harness.records.errors import DamagedError, FieldError, WriteError

pa.set_cpu_count(1)
pa.set_io_thread_count(1)

FORMAT = "3"
"""Of the files that are written here; `archived` reads those of earlier ones."""

_ARROW: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple[float, ...]: pa.list_(pa.float64()),
    tuple[int, ...]: pa.list_(pa.int64()),
    tuple[str, ...]: pa.list_(pa.string()),
}
_READ_AGAIN_S = (0.0, 0.05, 0.5)
"""A shared folder may say for a moment that a file is stale."""

R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Quarantined:
    """A record file that cannot be trusted: its name, and what is wrong with it."""

    name: str
    reason: str


@dataclass(frozen=True)
class Reading:
    """What a set of record files holds.

    Args:
        rows: of every sound file in order of name, as plain data with the current column names.
        quarantined: the files that were left out.
        num_files: sound files read.
    """

    rows: tuple[dict[str, Any], ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    num_files: int = 0

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """The rows of one table, as its dataclass; columns that a file lacks have their default."""
        names = [one.name for one in dataclasses.fields(kind)]
        own = (row for row in self.rows if row["table"] == kind.table)
        return tuple(kind(**{name: row[name] for name in names if name in row}) for row in own)


def schema(kind: type[Row]) -> pa.Schema:
    """The Arrow schema of a table; a field that may be None is nullable, no other is."""
    return pa.schema([pa.field(name, _ARROW[inner], null) for name, (inner, null) in _fields(kind).items()])


def _fields(kind: type[Row]) -> dict[str, tuple[Any, bool]]:
    """By field its type without None, and whether None is allowed."""
    found = {}
    for name, inner in typing.get_type_hints(kind).items():
        if typing.get_origin(inner) is typing.ClassVar:
            continue
        kinds = typing.get_args(inner) if isinstance(inner, types.UnionType) else (inner,)
        found[name] = next(one for one in kinds if one is not type(None)), len(kinds) > 1
    return {one.name: found[one.name] for one in dataclasses.fields(kind)}


def checked(row: R) -> R:
    """The row itself, unless no schema or no machine could have it.

    Raises:
        FieldError: a null, a value of another type (no number is cast), a figure that is not finite or not above zero,
            an unknown status, or a void or failed row without its reason.
    """
    for name, (kind, nullable) in _fields(type(row)).items():
        value = getattr(row, name)
        if value is None and nullable:
            continue
        if not _is_a(value, kind):
            raise FieldError(
                f"record field {name}: expected {getattr(kind, '__name__', kind)}, received {value!r}.",
                "Convert it where it is measured; the record store casts nothing.",
            )
        figures = [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, float)]
        if not all(math.isfinite(one) and (one > 0 or name not in row.positive) for one in figures):
            expected = "figures above zero" if name in row.positive else "finite figures"
            raise FieldError(
                f"record field {name}: expected {expected}, received {value!r}.",
                "No exchange takes that long: void it.",
            )
    if isinstance(row, Envelope):
        _check_status(row)
    return row


def _is_a(value: object, kind: Any) -> bool:
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(type(one) is typing.get_args(kind)[0] for one in value)
    return type(value) is kind


def _check_status(row: Envelope) -> None:
    if row.status not in STATUSES or (row.status in (FAILED, VOID)) != (row.reason is not None):
        raise FieldError(
            f"record of {row.study}: expected {', '.join(STATUSES)} and a reason for all but {OK}, "
            f"received {row.status!r} and {row.reason!r}.",
            "Say what was measured, or why it was not.",
        )


def write(folder: Path, stem: str, rows: Sequence[Row]) -> Path:
    """Write rows of one table as a new file, named after `stem` and a random part.

    Nothing is published before the file reads back as it was written.

    Raises:
        FieldError: a row that is refused; nothing is written.
        WriteError: the file does not read back.
    """
    kind = type(rows[0])
    data = [dataclasses.asdict(checked(row)) for row in rows]
    metadata = {b"format": FORMAT, b"table": kind.table, b"num_rows": str(len(rows)), b"content_sha256": _hash(data)}
    table = pa.Table.from_pylist(data, schema=schema(kind).with_metadata(metadata))
    stream = io.BytesIO()
    pq.write_table(table, stream)

    def verify(path: Path) -> None:
        if [{**one, "table": kind.table} for one in _plain(data)] != _read_file(path):
            raise WriteError(f"{stem}: expected the rows as written, received others.", "Check the disk.")

    return files.publish(folder / f"{stem}-{secrets.token_hex(4)}.parquet", stream.getvalue(), verify)


def record_files(place: Path) -> list[Path]:
    """A record file, or those of a folder and below in order of name; names with a leading dot are unfinished."""
    if place.is_file():
        return [place]
    return sorted(path for path in place.rglob("*.parquet") if not path.name.startswith("."))


def read(paths: Iterable[Path]) -> Reading:
    """Read record files one by one; a damaged one is quarantined by name, and the others stay readable."""
    rows: list[dict[str, Any]] = []
    quarantined: list[Quarantined] = []
    found = list(paths)
    for path in found:
        try:
            rows += _read_file(path)
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            problem = getattr(error, "problem", None) or " ".join(str(error).split()) or type(error).__name__
            quarantined.append(Quarantined(path.name, problem))
    return Reading(tuple(rows), tuple(quarantined), len(found) - len(quarantined))


def _read_file(path: Path) -> list[dict[str, Any]]:
    table = _load(path)
    told = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    rows = table.to_pylist()
    if told.get("format") != FORMAT:
        return _plain(archived.rows(path, told, rows))
    expected = told.get("num_rows"), told.get("content_sha256")
    if expected != (str(len(rows)), _hash(rows)):
        raise DamagedError(f"{path.name}: expected the rows that were written, received others.", "Look at the disk.")
    return [{**row, "table": told["table"]} for row in _plain(rows)]


def _load(path: Path) -> pa.Table:
    for pause_s in _READ_AGAIN_S:
        time.sleep(pause_s)
        try:
            with path.open("rb") as stream:
                return pq.ParquetFile(stream).read(use_threads=False)
        except OSError as error:
            if error.errno != 116:  # ESTALE
                raise
            stale = error
    raise stale


def _hash(rows: Sequence[Mapping[str, Any]]) -> str:
    """sha256 over the rows as canonical JSON."""
    lines = (json.dumps(row, sort_keys=True, allow_nan=False) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _plain(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with tuples for lists, as dataclasses hold them."""
    return [{k: tuple(v) if isinstance(v, list | tuple) else v for k, v in row.items()} for row in rows]
