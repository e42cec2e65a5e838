"""The native digest: what the kernels and their host code are, as one name."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from afdep.errors import DigestError
from afdep.tree import root

_SOURCES = ("vendor/elastic", "vendor/simgpu", "afdep/csrc")
_SUFFIXES = (".h", ".hpp", ".cuh", ".cpp", ".cu")
_PATTERN = re.compile(r"n[0-9a-f]{8,64}")
_LENGTH = 16


@dataclass(frozen=True)
class NativeDigest:
    """A native source digest, written `n` and hexadecimal digits: bare hex becomes a number in YAML and CSV."""

    text: str

    @classmethod
    def parse(cls, text: object) -> "NativeDigest":
        """Read a digest.

        Raises:
            DigestError: anything but text of the form n0123abcd.
        """
        if not isinstance(text, str) or not _PATTERN.fullmatch(text):
            read = f"the {type(text).__name__} {text!r}"
            raise DigestError(
                f"native digest: expected n and 8 to 64 hexadecimal digits, received {read}.",
                "Write it with its prefix and in quotes, as 'n958652a3': bare hex turns into a number on the way.",
            )
        return cls(text)

    def __str__(self) -> str:
        return self.text


def native_sources(tree: Path | None = None) -> list[Path]:
    """Every native source file of a tree, in the order they are digested."""
    tree = tree or root()
    found = (path for folder in _SOURCES for path in (tree / folder).rglob("*"))
    return sorted(path for path in found if path.suffix in _SUFFIXES and path.is_file())


def native_digest(tree: Path | None = None) -> NativeDigest:
    """The digest of a tree's native sources: names and contents, nothing else.

    Raises:
        DigestError: the tree has no native sources.
    """
    tree = tree or root()
    sources = native_sources(tree)
    if not sources:
        raise DigestError(
            f"native digest: expected sources under {', '.join(_SOURCES)}, received none.",
            "Export the whole tree, with vendor/ and afdep/csrc/.",
        )
    return NativeDigest("n" + _hash((path.relative_to(tree).as_posix(), path.read_bytes()) for path in sources))


def _hash(files: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_LENGTH]
