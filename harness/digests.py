"""Hashes of plans, keys and sources. Each kind has its letter, so that none of them reads as a number anywhere."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SOURCE_ROOTS = ("afdep", "vendor", "conf/machine")
"""What a measured tree consists of: everything a process loads, builds or reads, except the harness itself."""

_GENERATED = {".pyc", ".so", ".o"}


def short_hash(letter: str, data: Any) -> str:
    """Letter and 16 hexadecimal digits of sha256 over `data` as canonical JSON."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return letter + hashlib.sha256(text.encode()).hexdigest()[:16]


def source_digest(tree: Path) -> str:
    """`t` and 16 digits over the names and contents of a tree's sources."""
    return "t" + _files_hash(tree, (path for root in SOURCE_ROOTS for path in (tree / root).rglob("*")))


def harness_digest(tree: Path) -> str:
    """`h` and 16 digits over the Python files of the harness of a tree."""
    return "h" + _files_hash(tree, (tree / "harness").rglob("*.py"))


def _files_hash(tree: Path, paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file() and path.suffix not in _GENERATED):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(tree).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()[:16]
