"""Records for people: any record files as one pandas table, archived ones too. docs/format.md has the columns."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from harness.records.errors import DamagedError, HarnessError
from harness.records.table import read, record_files


class NoRecordsError(HarnessError, LookupError):
    """A place without the records that were asked for."""


def frame(source: Path | str | Iterable[Path | str], table: str | None = None) -> pd.DataFrame:
    """Read records into a table with a row each.

    Args:
        source: a folder, which is searched with all below it, a file, or several of either.
        table: one of the tables that the records are of; needed where they are of several.

    Returns:
        The rows in order of file name, with the column names of today whatever their format; a column that only some
        files have is missing (NaN or None) in the others.

    Raises:
        DamagedError: a file that cannot be trusted.
        NoRecordsError: no such place, no such records, or records of several tables.
    """
    places = list(map(Path, [source] if isinstance(source, Path | str) else source))
    for path in places:
        if not path.exists():
            problem = f"{path}: expected a folder or a file, received nothing of that name."
            raise NoRecordsError(problem, "Name what is there; a plan that has not run has no records.")
    paths = [path for one in places for path in record_files(one)]
    found = read(paths)
    for one in found.quarantined:
        raise DamagedError(f"{one.name}: {one.reason}", "Move the file away, or name the files that are to be read.")
    tables = sorted({str(row["table"]) for row in found.rows})
    wanted = table or (tables[0] if len(tables) == 1 else None)
    if wanted not in tables:
        received = ", ".join(tables) or "no records"
        raise NoRecordsError(
            f"{', '.join(map(str, places))}: expected {wanted or 'records of one table'}, received {received}.",
            f"Write table=NAME, one of {received}.",
        )
    return pd.DataFrame([row for row in found.rows if row["table"] == wanted]).drop(columns="table")
