"""The files under records/, read without the harness: what each holds, and whether that is what it says of itself.

Only pyarrow, json and hashlib, because these files outlive the code that wrote them. A new kind of file needs a line in
`FORMATS`. After new records were kept, `python -m tests.repo.record_files > tests/golden/archived_records.json`.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
HASH = "content_sha256"

Row = dict[str, Any]
Inventory = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Format:
    """How files with one name for their version are written.

    Args:
        versions: that exist.
        join: the bytes that the content hash is taken of, from one line of JSON a row.
        count: the metadata key that holds the number of rows, if one does.
        in_rows: whether each row says its version.
    """

    versions: tuple[str, ...]
    join: Callable[[Iterable[str]], str]
    count: str = ""
    in_rows: bool = False


FORMATS = {
    "format": Format(("3",), "\n".join, count="num_rows"),
    "schema_version": Format(("1", "2"), lambda lines: "".join(f"{line}\n" for line in lines), "num_records", True),
    "table_version": Format(("1",), "\n".join),
    "hunt_schema_version": Format(("1",), "\n".join),
}
"""By the metadata key that holds the version."""


@dataclass(frozen=True)
class RecordFile:
    """A file as it was read; `metadata` is what it says of itself."""

    metadata: dict[str, str]
    schema: pa.Schema
    rows: list[Row]

    @property
    def version_key(self) -> str:
        (key,) = [name for name in self.metadata if name in FORMATS]
        return key

    @property
    def content_sha256(self) -> str:
        """The content hash, computed from the rows."""
        lines = (json.dumps(row, sort_keys=True) for row in self.rows)
        return hashlib.sha256(FORMATS[self.version_key].join(lines).encode()).hexdigest()


def read(path: Path) -> RecordFile:
    """Read one file; pandas' and Arrow's own metadata is left out."""
    with path.open("rb") as stream:
        table = pq.ParquetFile(stream).read(use_threads=False)
    metadata = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    return RecordFile(metadata, table.schema.remove_metadata(), table.to_pylist())


def write(path: Path, file: RecordFile) -> None:
    """Write a file that says of itself what its `metadata` says, true or not."""
    table = pa.Table.from_pylist(file.rows, schema=file.schema)
    pq.write_table(table.replace_schema_metadata(file.metadata), path)


def sealed(file: RecordFile) -> RecordFile:
    """The file with a true content hash and count, as one would write it who altered its rows."""
    metadata = {**file.metadata, HASH: file.content_sha256}
    count = FORMATS[file.version_key].count
    counted = {count: str(len(file.rows))} if count else {}
    return RecordFile({**metadata, **counted}, file.schema, file.rows)


def fault(file: RecordFile) -> str | None:
    """Return what a file says of itself that is not so, or None."""
    keys = [name for name in file.metadata if name in FORMATS]
    if len(keys) != 1:
        return f"has {len(keys)} of the version keys {', '.join(FORMATS)}"
    version, known = file.metadata[keys[0]], FORMATS[keys[0]]
    if version not in known.versions:
        return f"{keys[0]} is {version}, not one of {', '.join(known.versions)}"
    if known.count and file.metadata.get(known.count) != str(len(file.rows)):
        return f"says {file.metadata.get(known.count)} rows, holds {len(file.rows)}"
    if known.in_rows and {str(row[keys[0]]) for row in file.rows} != {version}:
        return f"holds rows of another {keys[0]} than {version}"
    if file.metadata.get(HASH) != file.content_sha256:
        return "content hash is not that of its rows"
    return None


def inventory(files: Iterable[Path], root: Path) -> Inventory:
    """What records/ holds: of every table its rows, columns and content hash, of every other data file its sha256."""
    tables: Inventory = {"columns": {}, "tables": {}, "texts": {}}
    for path in sorted(files):
        name = path.relative_to(root).as_posix()
        if path.suffix == ".parquet":
            file = read(path)
            columns = " ".join(sorted(file.schema.names))
            label = "c" + hashlib.sha256(columns.encode()).hexdigest()[:8]
            tables["columns"][label] = columns
            tables["tables"][name] = [len(file.rows), label, file.content_sha256]
        elif path.suffix in {".json", ".csv"}:
            tables["texts"][name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return tables


def changes(frozen: Inventory, found: Inventory) -> list[str]:
    """Return the entries of a frozen inventory that are gone or are others now; further files are no change."""
    return [
        f"{name}: {'changed' if name in found[part] else 'gone'}"
        for part, entries in frozen.items()
        for name, entry in entries.items()
        if found[part].get(name) != entry
    ]


if __name__ == "__main__":
    held = inventory((path for path in (ROOT / "records").rglob("*") if path.is_file()), ROOT)
    json.dump(held, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
