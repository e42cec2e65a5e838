"""Digests: what the native sources of a target are, and what was compiled of them, as one name each."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from afdep import sources
from afdep.errors import DigestError
from afdep.sources import Target

_LENGTH = 16


@dataclass(frozen=True)
class Digest:
    """A digest, written as the letter of its kind and hexadecimal digits: bare hex becomes a number in YAML and CSV."""

    text: str
    letter: ClassVar[str]
    kind: ClassVar[str]

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read a digest.

        Raises:
            DigestError: anything but text of the form n0123abcd.
        """
        if not isinstance(text, str) or not re.fullmatch(rf"{cls.letter}[0-9a-f]{{8,64}}", text):
            read = f"the {type(text).__name__} {text!r}"
            raise DigestError(
                f"{cls.kind} digest: expected {cls.letter} and 8 to 64 hexadecimal digits, received {read}.",
                f"Write it with its prefix and in quotes, as '{cls.letter}958652a3': bare hex turns into a number.",
            )
        return cls(text)

    def __str__(self) -> str:
        return self.text


class NativeDigest(Digest):
    """Of a target's native sources."""

    letter, kind = "n", "native"


class CodeDigest(Digest):
    """Of a library's machine code."""

    letter, kind = "c", "code"


def native_digest(target: Target, tree: Path | None = None, edits: Mapping[str, str] | None = None) -> NativeDigest:
    """The digest of a target's native sources: logical names and contents, units and flags, nothing else.

    Args:
        target: "sim" or "cuda".
        tree: by default this one.
        edits: texts in place of those of some files, as `afdep.sources.native_sources` takes them.

    Raises:
        DigestError: no such target, or a source that is missing.
    """
    recipe = sources.recipe(target)
    made_of = [*recipe.flags, *recipe.optimisation, *map(sources.logical, recipe.units)]
    files = sources.native_sources(target, tree, edits)
    return NativeDigest("n" + short_hash([("recipe", "\0".join(made_of).encode()), *files.items()]))


def short_hash(parts: Iterable[tuple[str, bytes]]) -> str:
    """16 hexadecimal digits of sha256 over names and contents."""
    digest = hashlib.sha256()
    for name, content in parts:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_LENGTH]
