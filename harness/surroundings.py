"""What a verb is given from outside: clocks, environment, output and the repository it stands in."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.workspace import REPOSITORY

OK, NOTHING, ERROR = 0, 3, 4
"""Exit statuses: done; nothing measured, or void alone; usage, failure or anything unexpected."""


@dataclass(frozen=True)
class Surroundings:
    """The world outside a verb.

    Args:
        repository: root of the repository.
        environ: environment variables.
        clock: seconds since any fixed moment.
        now: the time of day in UTC.
        print_line: where lines go.
    """

    repository: Path
    environ: Mapping[str, str]
    clock: Callable[[], float]
    now: Callable[[], datetime]
    print_line: Callable[[str], None]


def real() -> Surroundings:
    """The surroundings of an ordinary command."""
    return Surroundings(REPOSITORY, os.environ, time.monotonic, lambda: datetime.now(UTC), _print_line)


def _print_line(line: str) -> None:
    print(line, flush=True)
