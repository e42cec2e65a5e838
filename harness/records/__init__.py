"""Measured records: their schema, and the store that writes and reads them. Imports nothing else of this tree."""

from harness.records.errors import FieldError, RecordError, WriteError
from harness.records.schema import SCHEMA, SCHEMA_VERSION, STATUSES, Record
from harness.records.store import Quarantined, Reading, content_hash, read, record_files, write

__all__ = [
    "SCHEMA",
    "SCHEMA_VERSION",
    "STATUSES",
    "FieldError",
    "Quarantined",
    "Reading",
    "Record",
    "RecordError",
    "WriteError",
    "content_hash",
    "read",
    "record_files",
    "write",
]
