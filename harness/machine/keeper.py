"""Cleans up behind a process that is killed: `python -P -m harness.machine.keeper`, which that process starts first.

It reads lines `MODULE:FUNCTION ARGUMENT...` from a pipe that the starter holds open. Where the pipe ends without the
word that all has ended well, it calls these functions.
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
        self.call("harness.machine.keeper:kill_group", str(number))

    def call(self, place: str, *arguments: str) -> None:
        """A function, as `module:function`, that must be called with these texts once the starter is gone."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{shlex.join([place, *arguments])}\n")
        self._child.stdin.flush()

    def end(self) -> None:
        """All has ended well."""
        self._child.communicate(f"{_ENDED}\n")


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
        place, *arguments = shlex.split(line)
        module, _, function = place.partition(":")
        getattr(import_module(module), function)(*arguments)
    return 1


def kill_group(number: str) -> None:
    """Kill a process group, if it is still there."""
    with suppress(ProcessLookupError):
        os.killpg(int(number), signal.SIGKILL)


if __name__ == "__main__":
    status = main(sys.stdin.read().split("\n")[:-1])
    os._exit(status)
