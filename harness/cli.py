"""`python -m harness VERB key=value...`: finds the verb, and turns every error into two lines and exit status 4."""

import errno
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from harness.errors import OutputClosedError, UsageError, valid_names
from harness.surroundings import ERROR, OK, UNREAD, Surroundings, real
from harness.trees import exclusive_directory
from harness.workspace import REPOSITORY

VERBS = (
    *("screen", "plan", "bundle", "report", "records", "hunt", "faults", "validate", "fit", "calibrate", "claims"),
    *("status", "doctor"),
)
_NO_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
HELP_WORDS = ("help", "--help", "-h")


def main(arguments: Sequence[str], around: Surroundings | None = None) -> int:
    """Run one command.

    Args:
        arguments: the verb and its settings.
        around: the surroundings; the real ones if None.

    Returns:
        0 done, 1 a hunt or a validation found something, 3 nothing measured or void alone, 4 usage error, failure or
        anything unexpected, 141 nobody reads on.
    """
    try:
        if set(arguments) & set(HELP_WORDS):
            return _help(around or real())
        return _verb(arguments)(arguments[1:], around or real())
    except KeyboardInterrupt:
        return _complain("interrupted: finished processes are recorded.", "Run the same command again to resume.")
    except OutputClosedError:
        return UNREAD
    except Exception as error:
        return _explain(error)


def _help(around: Surroundings) -> int:
    around.print_line(_usage())
    return OK


def _usage() -> str:
    return str(import_module("harness.usage").text(VERBS))


def _verb(arguments: Sequence[str]) -> Callable[[Sequence[str], Surroundings], int]:
    name = arguments[0] if arguments else ""
    if name not in VERBS:
        print(f"{_usage()}\n", file=sys.stderr)
        raise UsageError(f"verb: expected one, received {name!r}.", valid_names(name, VERBS))
    run: Callable[[Sequence[str], Surroundings], int] = import_module(f"harness.verbs.{name}").run
    return run


def _explain(error: Exception) -> int:
    """Two lines: our errors bring them, a place that takes no file is named, and of any other the traceback is kept."""
    problem, next_step = getattr(error, "problem", None), getattr(error, "next_step", None)
    if isinstance(problem, str) and isinstance(next_step, str):
        return _complain(problem, next_step)
    if isinstance(error, OSError) and error.errno in _NO_PLACE:
        problem = f"{error.filename or 'files'}: expected a place to read and write, received {error.strerror!r}."
        return _complain(problem, "Mend that place, or write launcher.out=FOLDER.")
    path = _errors_folder() / "traceback.txt"
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    text = " ".join(str(error).split()) or "no message"
    return _complain(f"unexpected {type(error).__name__}: {text}", f"This is a defect; its traceback is in {path}.")


def _errors_folder() -> Path:
    try:
        return exclusive_directory(REPOSITORY / "out" / "errors", "error")
    except OSError:  # the out folder may be what is wrong
        return Path(tempfile.mkdtemp(prefix="harness-error-"))


def _complain(problem: str, next_step: str) -> int:
    print(f"{problem}\n{next_step}", file=sys.stderr, flush=True)
    return ERROR
