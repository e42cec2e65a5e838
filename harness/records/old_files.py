"""Files that are written once: synced under a name with a leading dot, then linked to the final one.

Only a run that is under way replaces its own, by a longer one.
"""

import os
import secrets
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def own_name(stem: str) -> str:
    """A name for a file beside those that other processes write: `stem` and a random part."""
    return f"{stem}-{secrets.token_hex(4)}"


def write_once(directory: Path, name: str, table: pa.Table) -> Path:
    """Write a table as a new Parquet file; the directory is made if missing.

    Returns:
        The final path. No existing file is ever replaced.

    Raises:
        FileExistsError: there is a file of that name.
    """
    directory.mkdir(parents=True, exist_ok=True)
    temporary, final = directory / f".{name}.tmp", directory / name
    _write_synced(temporary, table)
    try:
        os.link(temporary, final)
    finally:
        temporary.unlink()
    _sync_directory(directory)
    return final


def replace_by(later: Path, path: Path) -> Path:
    """Put a file that was written once in the place of an earlier one, or of none, at one stroke."""
    later.replace(path)
    _sync_directory(path.parent)
    return path


def _write_synced(path: Path, table: pa.Table) -> None:
    with path.open("xb") as stream:
        pq.write_table(table, stream)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
