"""Measured records: what every row says, the store that writes and reads them, and `frame` for people.

Imports nothing else of this tree.
"""

from typing import Any

from harness.records.envelope import Envelope, Row
from harness.records.errors import DamagedError, FieldError, HarnessError, WriteError
from harness.records.table import Quarantined, Reading, read, record_files, schema, write

__all__ = [
    "DamagedError",
    "Envelope",
    "FieldError",
    "HarnessError",
    "Quarantined",
    "Reading",
    "Row",
    "WriteError",
    "frame",
    "read",
    "record_files",
    "schema",
    "write",
]


def __getattr__(name: str) -> Any:
    """`frame` needs pandas, which a node that only runs plans may lack."""
    if name != "frame":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harness.records.frames import frame

    return frame
