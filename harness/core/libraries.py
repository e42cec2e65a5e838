"""Native libraries of edited trees: built here from a copy of the tree, or carried by a tree that travels."""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from afdep import build, native_digest
from harness.core import trees
from harness.core.codec import encode, short_hash
from harness.study import Edit

NATIVE = ("vendor", "afdep")
"""What a native library is built from."""


@dataclass(frozen=True)
class Library:
    """A built library.

    Args:
        path: absolute.
        digest: native digest that it must report.
    """

    path: str
    digest: str


def edited(slot: Path, edits: Sequence[Edit]) -> Library:
    """The CUDA library of a tree with some edits: carried, cached, or built now.

    Raises:
        TreeError: an edit that finds no place.
        BuildError: it does not build.
    """
    digest = str(native_digest("cuda", slot, trees.edited(slot, edits)))
    if (place := carried(slot, edits)).exists():
        return Library(str(place), digest)
    with tempfile.TemporaryDirectory(prefix="edited-", dir=slot.parent) as name:
        tree = copied(slot, Path(name))
        trees.edit(tree, edits)
        return Library(str(build.build_cuda(tree)), digest)


def carried(slot: Path, edits: Sequence[Edit]) -> Path:
    """Where a tree that travels has the CUDA library of its edited sources."""
    return slot / "native" / edits_hash(edits) / "libafdep_cuda.so"


def copied(slot: Path, folder: Path) -> Path:
    """A copy of a tree's native sources and its Python package, in a new folder below `folder`."""
    tree = folder / "tree"
    for part in NATIVE:
        shutil.copytree(slot / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


def edits_hash(edits: Sequence[Edit]) -> str:
    """`e` and 16 digits over edits, for the name of what is built from them."""
    return short_hash("e", [encode(one) for one in edits])


def sha256(path: Path) -> str:
    """Of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
