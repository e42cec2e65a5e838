"""Ends tools with their ranks where whoever started them is killed: `python -P -m harness.sanitizer.keeper`.

It reads process groups, a line each, from a pipe that the starter holds open. A rank cannot watch one itself: nothing
says what a tool passes on.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from harness import process
from harness.leaving import leave
from harness.workspace import REPOSITORY

_ENDED = "ended"


@contextmanager
def kept() -> Iterator["subprocess.Popen[str]"]:
    """A keeper, which is there before what it keeps; behind the block, that has ended."""
    keeper = subprocess.Popen(
        process.command("harness.sanitizer.keeper", _ENDED),
        cwd="/",
        env=process.environment(REPOSITORY, os.environ),
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield keeper
    finally:
        keeper.communicate(_ENDED)


def tell(keeper: "subprocess.Popen[str]", group: int) -> None:
    """Give a keeper one more process group."""
    assert keeper.stdin is not None
    keeper.stdin.write(f"{group}\n")
    keeper.stdin.flush()


def main(ended: str) -> int:
    """Wait for the starter's last word or its end; 1 where groups were ended here."""
    *groups, last = sys.stdin.read().split("\n")
    if last == ended:
        return 0
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(int(group), signal.SIGKILL)
    return 1


if __name__ == "__main__":
    leave(main(sys.argv[1]))
