"""What a verb is given from outside: clocks, environment, output and the repository it stands in."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import OutputClosedError
from harness.workspace import REPOSITORY

OK, FOUND, NOTHING, ERROR, UNREAD = 0, 1, 3, 4, 141
"""Exit statuses: done; a hunt found something; nothing measured, or void alone; usage, failure or anything unexpected;
output without a reader, as a shell reports SIGPIPE."""


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

    def timed_lines(self) -> Callable[[str], None]:
        """Prints lines, each with the seconds since this call behind it."""
        started = self.clock()
        return lambda text: self.print_line(f"{text}  ({self.clock() - started:.1f} s)")


def real() -> Surroundings:
    """The surroundings of an ordinary command."""
    return Surroundings(REPOSITORY, os.environ, time.monotonic, lambda: datetime.now(UTC), _print_line)


def _print_line(line: str) -> None:
    try:
        print(line, flush=True)
    except BrokenPipeError as error:
        raise OutputClosedError("standard output: expected a reader, received none.", "Read to the end.") from error
