"""What a record is: one row per rank of a measured cell, or one per cell that failed or is void.

The Arrow schema is derived from the fields of `Record` alone and is passed explicitly to every write and read, so that
an all-null column or a digest that looks like a number never decides a type.
"""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from harness.records.errors import FieldError

SCHEMA_VERSION = 2

Status = Literal["ok", "failed", "void"]
STATUSES: tuple[str, ...] = typing.get_args(Status)

Samples = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One rank of one cell of one process. Fields without a default are keys and are never null.

    Args:
        key: identifies plan, cell, arm, digest, pair and position; every rank of a cell shares it.
        process_key: identifies the process that measured the cell, with all its cells.
        arm_index: place of the arm in the plan; 0 is the baseline.
        native_digest: the digest that the plan expects of the arm's tree.
        loaded_digest: the digest that the loaded library reported; null where none was loaded.
        rank: null where no rank was measured (failed, void).
        latency_us: median of `samples_us` of this rank; a cell is the maximum over its Attention ranks.
        samples_us: one round trip per timed exchange, in order.
        module_path: where `afdep` was loaded from, relative to the slot.
        host: ordinal of the host inside the run.
        host_calls: calls of the CUDA API that one exchange takes on the host, where they were counted.
        host_us: what one exchange takes on the host until it is enqueued, where that was timed.
        observed: what else the rank saw of itself, as JSON.
    """

    schema_version: int = SCHEMA_VERSION
    key: str
    process_key: str
    plan_hash: str
    screen: str
    block: int
    row: int
    pair: int
    position: int
    attempt: int
    backend: str
    machine: str
    layout: str
    hidden: int
    dtype: str
    routing: str
    tokens: int
    bucket: int
    experts: int
    top_k: int
    capacity: int
    collect: str
    mode: str
    placement: str
    ranks_per_gpu: int
    transport_sms: int
    num_exchanges: int
    proof_exchanges: int
    seed: int
    arm: str
    arm_index: int
    tree: str
    slot: str
    native_digest: str
    source_digest: str
    harness_digest: str
    host: int
    status: str
    rank: int | None = None
    role: str | None = None
    latency_us: float | None = None
    reducer: str | None = None
    samples_us: Samples | None = None
    proofs_passed: int | None = None
    registered_bytes: int | None = None
    loaded_digest: str | None = None
    loaded_protocol: str | None = None
    loaded_switches: str | None = None
    module_path: str | None = None
    safe_path: bool | None = None
    void_reason: str | None = None
    fail_reason: str | None = None
    host_calls: float | None = None
    host_us: float | None = None
    observed: str | None = None


ADDED_IN = {"host_calls": 2, "host_us": 2, "observed": 2}
"""Columns by the schema version that brought them; a file of an older version lacks them."""

_ARROW: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    Samples: pa.list_(pa.float64()),
}


def _plain(annotation: Any) -> tuple[Any, bool]:
    """The annotation without None, and whether None was allowed."""
    if isinstance(annotation, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(annotation) if arg is not type(None))
        return inner, True
    return annotation, False


_FIELDS: dict[str, tuple[Any, bool]] = {f.name: _plain(f.type) for f in dataclasses.fields(Record)}

SCHEMA: pa.Schema = pa.schema([pa.field(name, _ARROW[kind], null) for name, (kind, null) in _FIELDS.items()])

READABLE: tuple[int, ...] = tuple(range(1, SCHEMA_VERSION + 1))


def schema_of(version: int) -> pa.Schema:
    """The schema that files of a version have."""
    return pa.schema([field for field in SCHEMA if ADDED_IN.get(field.name, 1) <= version])


def as_row(record: Record) -> dict[str, Any]:
    """The record as plain data, with the columns of its own version."""
    row = dataclasses.asdict(record)
    return {name: value for name, value in row.items() if ADDED_IN.get(name, 1) <= record.schema_version}


def check(record: Record) -> Record:
    """The record itself, after its types and statuses were checked.

    Raises:
        FieldError: a null key, a value of another type (no number is cast), an unknown status, or a void or failed
            record without its reason.
    """
    for name, (kind, nullable) in _FIELDS.items():
        value = getattr(record, name)
        if value is None and not nullable:
            raise FieldError(f"record field {name}: expected a value, received null.", "Key columns are never null.")
        if value is not None and not _is_a(value, kind):
            expected = getattr(kind, "__name__", str(kind))
            raise FieldError(
                f"record field {name}: expected {expected}, received {value!r} ({type(value).__name__}).",
                "Convert it where it is measured; the record store casts nothing.",
            )
    _check_status(record)
    return record


def _is_a(value: object, kind: Any) -> bool:
    if kind is Samples:
        return isinstance(value, tuple) and all(type(sample) is float for sample in value)
    return type(value) is kind


def _check_status(record: Record) -> None:
    needed = {"ok": "latency_us", "failed": "fail_reason", "void": "void_reason"}
    if record.status not in STATUSES:
        raise FieldError(
            f"record field status: expected one of {', '.join(STATUSES)}, received {record.status!r}.",
            "Use the status the process ended with.",
        )
    if getattr(record, needed[record.status]) is None:
        raise FieldError(
            f"record with status {record.status}: expected {needed[record.status]}, received null.",
            "Say what was measured, or why it was not.",
        )


def to_table(records: Sequence[Record]) -> pa.Table:
    """Checked records as an Arrow table of `SCHEMA`."""
    rows = [dataclasses.asdict(check(record)) for record in records]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def from_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[Record, ...]:
    """Records from the rows of a table of `SCHEMA`; missing values are None."""
    return tuple(check(Record(**{**row, "samples_us": _samples(row["samples_us"])})) for row in rows)


def _samples(values: Sequence[float] | None) -> Samples | None:
    return None if values is None else tuple(values)
