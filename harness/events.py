"""What a running process says on its standard output: one JSON line per event, read by whoever started it."""

import json
import sys
from typing import Any

CELL, WRITTEN, STAGE = "cell", "written", "stage"
"""A cell is measured; a record file is written; a process has come so far, or to an end, in the words of its `text`."""


def say(event: str, **fields: Any) -> None:
    """Print one event at once."""
    print(json.dumps({"event": event, **fields}), flush=True)


def hear(line: str) -> dict[str, Any] | None:
    """The event of a line; None for whatever else a library may print."""
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) and "event" in data else None


def complain(text: str) -> None:
    """Print to standard error."""
    print(text, file=sys.stderr, flush=True)
