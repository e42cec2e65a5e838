"""Files that are published whole or not at all: written aside, synced, checked, and only then given their name.

Every step has a name, so that a test can end the process there: nothing that is half done may be taken for a result.
"""

import errno
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

NO_LINKS = (errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS, errno.EMLINK)
"""What a file system says that has no hard links."""

reached: list[Callable[[str], None]] = []
"""Called with the name of each step before it is taken: write, fsync, check, link, rename, and those of the journal."""


def step(name: str) -> None:
    """Say that a step comes next."""
    for listener in reached:
        listener(name)


def publish(path: Path, content: bytes, check: Callable[[Path], object] = lambda path: None) -> Path:
    """Write a new file: no reader ever sees it before it is complete, synced and checked.

    Args:
        path: of the file; its folder is made if missing.
        content: of the file.
        check: reads the file under its temporary name, and raises where it is not as it should be.

    Raises:
        FileExistsError: there is a file of that name.
    """
    temporary = aside(path, content)
    try:
        step("check")
        check(temporary)
        step("link")
        _link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return path


def replace(path: Path, content: bytes) -> Path:
    """Write a file in the place of whatever is there, at one stroke."""
    temporary = aside(path, content)
    try:
        step("rename")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return path


def aside(path: Path, content: bytes) -> Path:
    """The content, synced, beside a path under a name that starts with a dot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    step("write")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            step("fsync")
            os.fsync(stream.fileno())
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # a write names no file
            error.filename = str(path.parent)
        raise
    return temporary


def _link(temporary: Path, path: Path) -> None:
    """Give the file its name unless there is one of that name; where there are no hard links, by renaming."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        temporary.rename(path)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems sync no folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
