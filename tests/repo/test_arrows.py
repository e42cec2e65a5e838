"""The arrows of the tree: harness -> afdep -> vendor, records alone, reports last, and a vendor tree without roles."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

OURS = {"afdep", "harness", "vendor", "records", "reports", "conf", "tests"}
PRODUCT = {"afdep", "harness", "vendor"}
OUTSIDE_VENDOR = {"afdep", "csrc", "harness"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
ROLE_WORD = re.compile(r"attention|ffn", re.IGNORECASE)
NATIVE = {".cpp", ".hpp", ".h", ".cu", ".cuh"}


def module_of(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path, root: Path) -> Iterator[str]:
    """Yield the absolute names that a Python file imports from this tree."""
    package = module_of(file, root).split(".")
    package = package if file.name == "__init__.py" else package[:-1]
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] in OURS)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def allowed(importer: str, imported: str) -> bool:
    """Whether one module may import another."""
    if within(importer, "harness.records"):
        return within(imported, "harness.records")
    if within(importer, "harness"):
        return imported.split(".")[0] in {"harness", "afdep"}
    if within(importer, "afdep"):
        return within(imported, "afdep")
    return not within(importer, "vendor")


def broken_arrows(files: list[Path], root: Path) -> list[str]:
    python = [file for file in files if file.suffix == ".py" and file.relative_to(root).parts[0] in PRODUCT]
    pairs = [(module_of(file, root), name) for file in python for name in imports(file, root)]
    return [f"{importer} imports {name}" for importer, name in pairs if not allowed(importer, name)]


def vendor_includes_outside(files: list[Path], root: Path) -> list[str]:
    """Return what files under vendor/ include by a name that leads to afdep/ or the harness."""
    native = [file for file in files if file.suffix in NATIVE and file.is_relative_to(root / "vendor")]
    pairs = [(file, name) for file in native for name in INCLUDE.findall(file.read_text("utf-8"))]
    return [f"{file.name} includes {name}" for file, name in pairs if OUTSIDE_VENDOR & set(Path(name).parts)]


def role_words(files: list[Path], root: Path) -> list[str]:
    vendor = [file for file in files if file.is_relative_to(root / "vendor")]
    named = [file.name for file in vendor if ROLE_WORD.search(file.name)]
    return named + [file.name for file in vendor if ROLE_WORD.search(file.read_text("utf-8"))]


def plant(root: Path, name: str, text: str) -> list[Path]:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return [file]


def test_every_import_follows_the_arrows(files: list[Path], root: Path) -> None:
    assert broken_arrows(files, root) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("afdep/case.py", "import harness.plan"),
        ("afdep/case.py", "def f():\n    from harness import plan"),
        ("afdep/inner/case.py", "from ...harness import plan"),
        ("vendor/case.py", "from afdep import Layout"),
        ("harness/records/case.py", "from afdep import Layout"),
        ("harness/records/case.py", "from ..plan import Plan"),
        ("harness/records/__init__.py", "from ..plan import Plan"),
        ("harness/records.py", "from .plan import Plan"),
        ("harness/case.py", "import reports"),
        ("harness/case.py", "from tests import conftest"),
    ],
)
def test_an_import_against_the_arrows_is_noticed(tmp_path: Path, name: str, text: str) -> None:
    assert len(broken_arrows(plant(tmp_path, name, text), tmp_path)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("harness/case.py", "from afdep import Layout\nfrom harness.records import store"),
        ("harness/records/case.py", "import numpy\nfrom .schema import SCHEMA\nfrom harness.records import store"),
        ("afdep/case.py", "from afdep.layout import Layout\nfrom . import arms"),
        ("vendor/hashes.py", "import hashlib"),
    ],
)
def test_an_import_along_the_arrows_passes(tmp_path: Path, name: str, text: str) -> None:
    assert broken_arrows(plant(tmp_path, name, text), tmp_path) == []


def test_the_vendor_tree_includes_nothing_of_ours(files: list[Path], root: Path) -> None:
    assert vendor_includes_outside(files, root) == []


@pytest.mark.parametrize("include", ['"../../afdep/csrc/abi.h"', '"csrc/window.hpp"', "<afdep/csrc/abi.h>"])
def test_a_vendor_include_of_ours_is_noticed(tmp_path: Path, include: str) -> None:
    planted = plant(tmp_path, "vendor/elastic/case.hpp", f"#pragma once\n#include {include}\n")
    assert len(vendor_includes_outside(planted, tmp_path)) == 1


def test_the_vendor_tree_knows_no_roles(files: list[Path], root: Path) -> None:
    assert any(file.is_relative_to(root / "vendor") for file in files)
    assert role_words(files, root) == []


@pytest.mark.parametrize("word", ["Attention", "num_ffn_ranks", "FFN"])
def test_a_role_in_the_vendor_tree_is_noticed(tmp_path: Path, word: str) -> None:
    assert role_words(plant(tmp_path, "vendor/elastic/case.hpp", f"// the {word}\n"), tmp_path) == ["case.hpp"]
