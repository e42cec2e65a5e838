"""Cleans up behind a process that is killed: `python -P -m harness.machine.keeper`, which that process starts first.

It reads lines from a pipe that the starter holds open: `group N`, a process group to be killed, or `call
MODULE:FUNCTION ARGUMENT...`, for what ends otherwise. Where the pipe ends without the word that all has ended well, it
does so.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

_ENDED = "ended"
_ROOT = Path(__file__).resolve().parents[2]


class Keeper:
    """A running keeper."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.machine.keeper"],
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # a signal to all of the starter's group does not reach it
        )

    def group(self, number: int) -> None:
        """A process group that must not outlive the starter."""
        self._tell(f"group {number}")

    def call(self, place: str, *arguments: str) -> None:
        """A function, as `module:function`, that must be called with these texts once the starter is gone."""
        self._tell(shlex.join(["call", place, *arguments]))

    def end(self) -> None:
        """All has ended well."""
        self._child.communicate(f"{_ENDED}\n")

    def _tell(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()


@contextmanager
def kept() -> Iterator[Keeper]:
    """A keeper, which is there before what it keeps; behind the block, that has ended."""
    keeper = Keeper()
    try:
        yield keeper
    finally:
        keeper.end()


def main(lines: list[str]) -> int:
    """Clean up unless the last line says that there is nothing to do."""
    if lines[-1:] == [_ENDED]:
        return 0
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "group":
            with suppress(ProcessLookupError, ValueError):
                os.killpg(int(rest), signal.SIGKILL)
        elif kind == "call":
            place, *arguments = shlex.split(rest)
            module, _, function = place.partition(":")
            getattr(import_module(module), function)(*arguments)
    return 1


if __name__ == "__main__":
    status = main(sys.stdin.read().split("\n")[:-1])
    os._exit(status)
