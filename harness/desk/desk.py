"""What a command is given: folders, environment, clocks and a place for its lines; its out folder and its launcher."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from afdep.tree import root
from harness.core.fields import Count, Text, Unit, Within
from harness.core.plan import Workspace
from harness.errors import OutputClosedError, UsageError, WorkspaceError

MISSING = "???"
"""What Hydra writes for a key that has no default."""


@dataclass(frozen=True)
class Desk:
    """The world outside a command.

    Args:
        root: of the tree: its conf, records and reports, and the git repository where there is one.
        here: where relative paths of the user start: the root of a checkout, or the current folder.
        environ: environment variables.
        clock: seconds since any fixed moment.
        now: the time of day in UTC.
        print_line: where lines go.
    """

    root: Path
    here: Path
    environ: Mapping[str, str]
    clock: Callable[[], float]
    now: Callable[[], datetime]
    print_line: Callable[[str], None]

    @property
    def conf(self) -> Path:
        return self.root / "conf"

    def path(self, text: str) -> Path:
        """A path that the user wrote."""
        return (self.here / text).resolve()

    def shown(self, path: Path) -> str:
        """A path as it is printed: from where relative ones start where it lies below, else in full."""
        return str(path.relative_to(self.here)) if path.is_relative_to(self.here) else str(path)


def real() -> Desk:
    """The desk of an ordinary command."""
    tree = root()
    here = tree if (tree / ".git").exists() else Path.cwd()
    return Desk(tree, here, os.environ, time.monotonic, lambda: datetime.now(UTC), print_line)


def print_line(line: str) -> None:
    """Print a line at once; a character that the terminal lacks is replaced.

    Raises:
        OutputClosedError: nobody reads any more.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(line.encode(encoding, "replace").decode(encoding), flush=True)
    except (BrokenPipeError, ValueError, OSError) as error:
        raise OutputClosedError("standard output: expected a reader, received none.", "Read to the end.") from error


def counted(number: int, noun: str) -> str:
    """A number of things in words: 1 plan, 2 plans."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def out_folder(text: str, desk: Desk) -> Workspace:
    """The out folder of a launcher.

    Raises:
        WorkspaceError: a file stands where the folder, or one above it, must be, or no folder can be made there.
    """
    path = desk.path(text)
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir():
        raise WorkspaceError(
            f"out folder {text}: expected a folder, received the file {nearest}.",
            "Move the file away, or write launcher.out=FOLDER.",
        )
    if not os.access(nearest, os.W_OK) or str(path).startswith(("/proc/", "/sys/")):
        raise WorkspaceError(
            f"out folder {text}: expected a place to write, received one that takes no files: {nearest}.",
            "Write launcher.out=FOLDER.",
        )
    return Workspace(path)


@dataclass(frozen=True)
class Launcher:
    """Where and how batches run.

    Args:
        name: local: here and now; node: nothing runs, plans and all they need go into a folder for a node.
        jobs: batches at a time, where what they take does not depend on each other; on GPUs one runs at a time.
        timeout_s: of one batch that has no limit of its own.
        minutes: after which no batch is started any more; what is left is for the next run.
        out: folder of plans, records and reports; relative to the root of a checkout, or to the current folder.
        to: the folder for the node.
    """

    name: Literal["local", "node"]
    jobs: Count
    timeout_s: Annotated[int, Within(1), Unit("s")]
    minutes: Annotated[float, Within(0), Unit("min")]
    out: Annotated[str, Text("a folder")]
    to: Annotated[str, Text("a folder")]


def need(key: str, text: object) -> str:
    """The value of a key that has no default.

    Raises:
        UsageError: it was left out.
    """
    if text in ("", MISSING, None):
        raise UsageError(f"{key}: expected a value, received none.", f"Write {key}=VALUE.")
    return str(text)
