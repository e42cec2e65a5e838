"""How a process of ours ends: at once, with everything said.

Threads of native libraries may still run when the interpreter takes itself apart, and can abort it after all its work
is done. Whatever must be kept is written and synced before, so nothing is lost by not waiting for them.
"""

import contextlib
import os
import sys
import threading
from multiprocessing import parent_process
from typing import NoReturn

ORPHANED = 75
"""Exit status of a process whose starter is gone: nobody would know of its figures."""


def leave_with_the_starter() -> None:
    """End this process when its standard input ends: a pipe that its starter holds open as long as it lives."""
    threading.Thread(target=_await_the_end_of_input, daemon=True).start()


def leave_with_the_parent() -> None:
    """End this process of a pool when its parent ends: one that is killed would leave it waiting for tasks for ever."""
    threading.Thread(target=_await_the_end_of_the_parent, daemon=True).start()


def _await_the_end_of_the_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(ORPHANED)


def _await_the_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(ORPHANED)


def leave(status: int) -> NoReturn:
    """End this process with this exit status; a reader of its output that is gone is no error."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    os._exit(status)
