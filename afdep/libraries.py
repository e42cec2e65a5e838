"""Built libraries as they are kept: each in a folder of its own, with a sidecar that says what it is.

A folder appears by one rename, whole and synced, so nobody finds half a library, or one beside another's sidecar.
"""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from afdep.errors import BuildError
from afdep.sources import Target

SIDECAR = "LIBRARY.json"

_LOG = logging.getLogger("afdep")
_ATTEMPTS = 8
_whole: set[tuple[Path, int, int]] = set()
"""Libraries that this process has looked at: path, bytes and time of the last change."""


@dataclass(frozen=True)
class BuiltLibrary:
    """What a sidecar says of the library beside it.

    Args:
        sha256: of the file, in hexadecimal.
        native_digest, code_digest: of its sources, and of its machine code.
        target, fiber: as the library reports them; the fiber is "none" on the CUDA target.
        compiler: the line with which the compiler names its version.
        flags: it was compiled with.
    """

    sha256: str
    native_digest: str
    code_digest: str
    target: Target
    fiber: str
    compiler: str
    flags: tuple[str, ...]


def sidecar(library: Path) -> BuiltLibrary:
    """What is known of a built library, without loading it or any tool.

    Raises:
        BuildError: no sidecar beside it, or one that is damaged.
    """
    path = library.with_name(SIDECAR)
    try:
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        read["flags"] = tuple(read["flags"])
        return BuiltLibrary(**{field.name: read[field.name] for field in fields(BuiltLibrary)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(
            f"native library: expected {SIDECAR} beside {library.name}, received {type(error).__name__}: {error}.",
            "Build the library again: `afdep.build` writes both.",
        ) from error


def sha256_of(library: Path) -> str:
    """The hash of a file, in hexadecimal."""
    return hashlib.sha256(library.read_bytes()).hexdigest()


def fault(library: Path) -> str | None:
    """Why a library must not be loaded: it is not what its sidecar says. None where it is, looked at once a process."""
    try:
        status = library.stat()
        seen = (library, status.st_size, status.st_mtime_ns)
        if seen in _whole:
            return None
        expected, received = sidecar(library).sha256, sha256_of(library)
    except BuildError as error:
        return error.problem
    except OSError as error:
        return f"native library: expected {library.name}, received: {error.strerror}."
    if received != expected:
        return f"native library: expected {library.name} of sha256 {expected[:16]}, received {received[:16]}."
    _whole.add(seen)
    return None


def found(library: Path) -> bool:
    """Whether a whole library is there; one that is damaged is named in a warning, and is to be built again."""
    if not library.parent.exists():
        return False
    problem = fault(library)
    if problem is not None:
        _LOG.warning("%s It is built again.", problem)
    return problem is None


def write(library: Path, about: BuiltLibrary) -> None:
    """Put the sidecar beside a library, and sync both."""
    path = library.with_name(SIDECAR)
    path.write_text(json.dumps(asdict(about), indent=1) + "\n", encoding="utf-8")
    for file in (library, path, library.parent):
        _sync(file)


@contextmanager
def publishing(library: Path) -> Iterator[Path]:
    """A path to build a library at; once the block has ended, its folder takes the place of `library.parent`.

    Another process may have been faster: then its library stays, unless it is damaged.

    Raises:
        BuildError: what is there afterwards is not whole.
    """
    folder = library.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-", ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        yield made / library.name
        for attempt in range(_ATTEMPTS):
            if _moved(made, folder):
                break
            if fault(library) is None:
                return
            _move_aside(folder, Path(scratch) / f"damaged{attempt}")
    if (problem := fault(library)) is not None:
        raise BuildError(problem, f"Look at the disk that holds {folder.parent}.")


def _moved(made: Path, folder: Path) -> bool:
    try:
        made.rename(folder)
    except OSError:  # something is there
        if not folder.exists():
            raise
        return False
    _sync(folder.parent)
    return True


def _move_aside(folder: Path, aside: Path) -> None:
    try:
        folder.rename(aside)
    except FileNotFoundError:  # another process did
        return


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
