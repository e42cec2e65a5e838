"""`afdep-bench NAME [ACTION] key=value...`: finds the command, and turns every error into two lines and status 4."""

import errno
import io
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from harness import study
from harness.core.process import Interrupted, in_words, leave, stopped_by_signals
from harness.core.trees import exclusive_directory
from harness.desk.desk import Desk, real
from harness.errors import Exit, OutputClosedError, UsageError, valid_names

ACTIONS = {
    "run": "harness.desk.run:run",
    "plan": "harness.desk.run:plan",
    "report": "harness.desk.report:run",
    "archive": "harness.desk.report:archive",
    "export": "harness.desk.report:export",
}
"""What can be done with a study; run where none is named."""

COMMANDS = {
    "campaign": "harness.desk.run:campaign",
    "claims": "harness.desk.status:claims",
    "records": "harness.desk.status:records",
    "status": "harness.desk.status:run",
    "doctor": "harness.desk.status:doctor",
}
"""What is no study."""

HELP = ("help", "--help", "-h")
_NO_PLACE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOTDIR),
    *(errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
)


def main(arguments: Sequence[str], desk: Desk | None = None) -> int:
    """Run one command.

    Args:
        arguments: a name, an action and its settings.
        desk: the surroundings; the real ones if None.

    Returns:
        One of `Exit`, or 128 and the number of the signal that ended it.
    """
    desk = desk or real()
    try:
        with stopped_by_signals():
            return int(_run(arguments, desk))
    except Interrupted as interruption:
        problem = f"interrupted by {interruption.name}: what has ended is recorded, and what was cut short is void."
        _complain(problem, "Run the same command again to go on.")
        return interruption.status
    except OutputClosedError:
        return Exit.UNREAD
    except Exception as error:
        return _explain(error, arguments, desk)


def _run(arguments: Sequence[str], desk: Desk) -> int:
    if not arguments or arguments[0] in HELP:
        desk.print_line(import_module("harness.desk.usage").overview(desk))
        return Exit.OK if arguments else Exit.ERROR
    name, words = arguments[0], list(arguments[1:])
    actions = tuple(ACTIONS) if name in study.names() else () if name in COMMANDS else None
    if actions is None:
        raise UsageError(f"name: expected one, received {name!r}.", valid_names(name, (*study.names(), *COMMANDS)))
    if set(words) & set(HELP):
        action = words[0] if words[0] in actions else "run"
        desk.print_line(import_module("harness.desk.usage").of(name, action if actions else None, desk))
        return Exit.OK
    if not actions:
        return _found(COMMANDS[name])(words, desk)
    action = words.pop(0) if words and "=" not in words[0] and not words[0].startswith("-") else "run"
    if action not in actions:
        raise UsageError(
            f"action: expected one of {name}, received {action!r}.", valid_names(action, (*actions, "help"))
        )
    return _found(ACTIONS[action])(name, words, desk)


def _found(place: str) -> Callable[..., int]:
    module, _, function = place.partition(":")
    found: Callable[..., int] = getattr(import_module(module), function)
    return found


def _explain(error: Exception, arguments: Sequence[str], desk: Desk) -> int:
    """Two lines: our errors bring them, a place that takes no file is named, and of any other the traceback is kept."""
    problem, next_step = getattr(error, "problem", None), getattr(error, "next_step", None)
    if isinstance(problem, str) and isinstance(next_step, str):
        return _complain(problem, next_step)
    if isinstance(error, shutil.Error):  # of a copied tree: source, target and reason of each file
        return _no_place(*error.args[0][0][1:])
    if isinstance(error, OSError) and error.errno in _NO_PLACE:
        out = next((word for word in reversed(arguments) if word.startswith("launcher.out=")), "=out")
        return _no_place(error.filename or error.filename2 or f"folder {out.partition('=')[2]}", str(error.strerror))
    path = _errors_folder(desk) / "traceback.txt"
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return _complain(f"unexpected {in_words(error)}", f"This is a defect; its traceback is in {path}.")


def _errors_folder(desk: Desk) -> Path:
    try:
        return exclusive_directory(desk.here / "out" / "errors", "error")
    except OSError:  # the out folder may be what is wrong
        return Path(tempfile.mkdtemp(prefix="harness-error-"))


def _no_place(name: str, received: str) -> int:
    problem = f"{name}: expected a place to read and write, received {received!r}."
    return _complain(problem, "Mend that place, or write launcher.out=FOLDER.")


def _complain(problem: str, next_step: str) -> int:
    with suppress(OSError, ValueError):
        print(f"{problem}\n{next_step}", file=sys.stderr, flush=True)
    return Exit.ERROR


def console() -> None:
    """Entry point of `afdep-bench` and of `python -m harness`."""
    sys.stdout = sys.stdout or io.StringIO()  # None where whoever started this has closed it
    sys.stderr = sys.stderr or io.StringIO()
    leave(main(sys.argv[1:]))
