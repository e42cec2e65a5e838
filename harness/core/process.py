"""Fresh processes in a slot: how they are started, how they end, and what their end means."""

import contextlib
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from harness.errors import WorkspaceError

ALLOWED = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "CXX", "CUDA_HOME", "LD_LIBRARY_PATH"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"),
)
"""Variables that a measured process inherits; everything else, every control included, comes from the plan."""

WORD = "AFDEP_BENCH_WORD"
"""Variable with the word by which a process's events are known."""

ORPHANED = 75
"""Exit status of a process whose starter is gone: nobody would know of its figures."""

REPORT = "report"
"""The event by which a tree that is asked says what it is."""

_LONGEST_REASON = 600
_STDERR_BYTES = 1 << 16
"""How much of the end of a process's standard error is looked at."""


def command(module: str, *arguments: str) -> list[str]:
    """A fresh interpreter that never searches the folder it starts in."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(slot: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that must load from `slot` alone.

    Raises:
        WorkspaceError: a slot that cannot stand alone in a search path.
    """
    if not slot.is_absolute() or os.pathsep in str(slot):
        raise WorkspaceError(
            f"PYTHONPATH: expected the absolute path of one slot, received {str(slot)!r}.",
            f"Keep the out folder at a path without {os.pathsep!r}: each part of it would let other sources in.",
        )
    inherited = {name: environ[name] for name in ALLOWED if name in environ}
    own = {
        "PYTHONPATH": str(slot),
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
    }
    return inherited | own


def ending(returncode: int, timed_out_after_s: float | None, last_stderr: str) -> str:
    """Why a process ended badly, in words.

    Args:
        returncode: as subprocess reports it; negative is a signal.
        timed_out_after_s: the limit if it was ended for that, else None.
        last_stderr: what it said last on standard error, or an empty text.
    """
    if timed_out_after_s is not None:
        cause = f"timeout: still running after {timed_out_after_s:g} s"
    elif returncode < 0:
        cause = f"signal: ended by {signal_name(-returncode)}"
    elif returncode:
        cause = f"exit code {returncode}"
    else:
        cause = "no output: exit code 0 without a word"
    return f"{cause}; last on stderr: {last_stderr or 'none'}"[:_LONGEST_REASON]


def signal_name(number: int) -> str:
    """The name of a signal, or its number where it has none."""
    return next((one.name for one in signal.Signals if one == number), f"signal {number}")


def tail(path: Path) -> str:
    """The end of a file that a process may still write; an empty text where there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _STDERR_BYTES))
        return stream.read().decode(errors="replace")


def last_line(text: str) -> str:
    """The last line that is not blank."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def last_words(stderr: str) -> tuple[str, str]:
    """What a process said last on standard error, and the next step behind it.

    Of an error that ended it this is the error's own line and the line that follows, or an empty text; of anything
    else the last line that is not blank.
    """
    frames = stderr.rpartition("Traceback (most recent call last):\n")[2].splitlines()
    error = [line.strip() for line in itertools.dropwhile(lambda line: not line[:1].strip(), frames)]
    if "Traceback (most recent call last):" not in stderr or not error:
        return last_line(stderr), ""
    return error[0], error[1] if len(error) > 1 else ""


def in_words(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"[:_LONGEST_REASON]


class Interrupted(BaseException):
    """This process was asked to end by a signal; no handler of errors takes it for one of a trial.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int):
        super().__init__(number)
        self.name, self.status = signal_name(number), 128 + number


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[None]:
    """A block that SIGINT, SIGTERM, SIGHUP and SIGUSR1 end by an exception, so that it cleans up behind itself."""

    def stop(number: int, frame: object) -> NoReturn:
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""By which somebody asks a process to end."""


class Mouth:
    """Where a process says its events: the standard output that it was started with, kept for these alone.

    Whatever else is printed goes to standard error from now on, so that no library can spoil or fake an event. What a
    tool prints around this process lacks the word that the starter gave to it alone.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock, self._word = threading.Lock(), os.environ.pop(WORD, "")

    def say(self, event: str, **fields: Any) -> None:
        """Say one event at once, as a line of its own."""
        with self._lock:
            self._stream.write(f"\n{json.dumps({'event': event, 'word': self._word, **fields})}\n")
            self._stream.flush()


def hear(line: str, word: str = "") -> dict[str, Any] | None:
    """The event of a line that the process with this word says; None for whatever else a tool may print."""
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) and "event" in data and data.pop("word", None) == word else None


def leave_with_the_starter(hear_word: Callable[[str], None]) -> None:
    """End this process when its standard input ends, which its starter holds open; until then hear its words."""

    def listen() -> None:
        for line in sys.stdin:
            hear_word(line.strip())
        os._exit(ORPHANED)

    threading.Thread(target=listen, daemon=True).start()


def leave(status: int) -> NoReturn:
    """End this process at once, with everything said.

    Threads of native libraries may still run when the interpreter takes itself apart, and can abort it after all its
    work is done. What must be kept is written and synced before; a reader of its output that is gone is no error.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError, ValueError):
            stream.flush()
    os._exit(status)
