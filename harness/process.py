"""Fresh processes in a slot: how they are started, and what their end means."""

import itertools
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.errors import SlotPathError

ALLOWED = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "CXX", "CUDA_HOME", "LD_LIBRARY_PATH"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"),
)
"""Variables that a measured process inherits; everything else, every control included, comes from the plan."""


def command(module: str, argument: str) -> list[str]:
    """A fresh interpreter that never searches the folder it starts in."""
    return [sys.executable, "-P", "-m", module, argument]


def environment(slot: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that must load from `slot` alone.

    Raises:
        SlotPathError: a slot that cannot stand alone in a search path.
    """
    inherited = {name: environ[name] for name in ALLOWED if name in environ}
    own = {
        "PYTHONPATH": search_path(str(slot)),
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return inherited | own


def search_path(text: str) -> str:
    """The text itself if it names exactly one absolute folder.

    Raises:
        SlotPathError: an empty or relative entry, or more than one: each would let other sources in.
    """
    entries = text.split(os.pathsep)
    if len(entries) != 1 or not entries[0] or not Path(entries[0]).is_absolute():
        raise SlotPathError(
            f"PYTHONPATH: expected the absolute path of one slot, received {text!r}.",
            f"Keep the out folder at a path without {os.pathsep!r}; an empty entry means the current folder.",
        )
    return text


def ending(returncode: int, timed_out_after_s: int | None, last_stderr: str) -> str:
    """Why a process left no record of its own, in words.

    Args:
        returncode: as subprocess reports it; negative is a signal.
        timed_out_after_s: the limit if it was ended for that, else None.
        last_stderr: what it said last on standard error, or an empty text.
    """
    if timed_out_after_s is not None:
        cause = f"timeout: still running after {timed_out_after_s} s"
    elif returncode < 0:
        cause = f"signal: ended by {signal.Signals(-returncode).name}"
    elif returncode:
        cause = f"exit code {returncode}"
    else:
        cause = "no output: exit code 0 without a record"
    return f"{cause}; last on stderr: {last_stderr or 'none'}"


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
