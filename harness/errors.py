"""The errors of the harness: one class per cause, the data as fields, the text in two lines.

The first line says the thing, what was expected and what was received; the second says what to do next.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum

from harness.records.errors import HarnessError as HarnessError


class Exit(IntEnum):
    """Exit statuses of a command; one that a signal ends has 128 and the signal's number."""

    OK = 0
    FOUND = 1
    """Something was found, as a failing seed or a wrong row."""
    UNCLEAR = 2
    """A verdict that needs more pairs."""
    NOTHING = 3
    """Nothing was measured, or void alone."""
    ERROR = 4
    """Usage, failure, or anything unexpected."""
    UNREAD = 141
    """Nobody reads on, as a shell reports SIGPIPE."""


def valid_names(received: object, valid: Iterable[object]) -> str:
    """The valid names as one phrase, led by the closest one to `received`."""
    names = [str(name) for name in valid]
    close = get_close_matches(str(received), names, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    return f"{suggestion}Valid: {', '.join(names) or 'none'}."


class UsageError(HarnessError, ValueError):
    """A command line that names no verb, an unknown key or option, or a flag."""


class OutputClosedError(HarnessError, OSError):
    """The reader of standard output is gone, as in `| head`: nothing to explain, and nobody to explain it to."""


class ValueReadError(HarnessError, ValueError):
    """A value of another type than its key takes, with what was read from the text."""


class ConfigError(HarnessError, ValueError):
    """A configuration that no screen can be planned from."""


class TreeError(HarnessError, RuntimeError):
    """A source tree that cannot be exported or identified."""


class PlanError(HarnessError, ValueError):
    """A plan file that is missing, altered or of another version."""


class PublishedError(HarnessError, ValueError):
    """Published figures that are missing or contradict themselves."""


class WorkspaceError(HarnessError, ValueError):
    """An out folder that is a file, takes no files, or cannot stand in a search path for modules."""


class BundleError(HarnessError, ValueError):
    """A plan or a library that cannot travel to a node."""

    def __init__(self, problem: str):
        super().__init__(problem, "Measure it here with launcher=local, or plan it without what cannot travel.")


class PlacementError(HarnessError, ValueError):
    """Ranks that the GPUs of a machine cannot seat."""


class RankError(HarnessError, RuntimeError):
    """A rank that does not find what its batch has for it."""


class ReportError(HarnessError, ValueError):
    """A report that has nothing to report on, or no place to go."""
