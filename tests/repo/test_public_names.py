"""The packages list their public names in __all__: all of them, and nothing else."""

import ast
from pathlib import Path

import pytest

PACKAGES = ["afdep", "afdep/cuda", "afdep/proof", "afdep/sim", "harness"]


def lazily_bound(tree: ast.Module) -> list[ast.stmt]:
    """Return what a package binds for type checkers, and at run time when it is first used."""
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return [node for block in blocks for node in block.body]


def bound_names(tree: ast.Module) -> set[str]:
    """Return the public names that the top level of a module binds."""
    names: set[str] = set()
    for node in [*tree.body, *lazily_bound(tree)]:
        if isinstance(node, ast.ImportFrom) and node.module in ("__future__", "typing"):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


def listed_names(tree: ast.Module) -> list[str]:
    """Return what __all__ lists; nothing when there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return []


def disagreement(source: str) -> set[str]:
    """Return the names that are public but not listed, or listed but not public."""
    tree = ast.parse(source)
    return bound_names(tree) ^ {name for name in listed_names(tree) if not name.startswith("__")}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_exactly_its_public_names(root: Path, package: str) -> None:
    source = (root / package / "__init__.py").read_text("utf-8")
    assert disagreement(source) == set()


def test_the_library_has_public_names(root: Path) -> None:
    names = listed_names(ast.parse((root / "afdep" / "__init__.py").read_text("utf-8")))
    assert {"Layout", "Arm", "World", "NativeDigest", "native_digest"} <= set(names)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from .layout import Layout\n__all__ = []", {"Layout"}),
        ("__all__ = ['Layout']", {"Layout"}),
        ("from .layout import Layout as L\n__all__ = ['Layout']", {"L", "Layout"}),
        ("def run(): ...\nN: int = 1\nM = 2", {"run", "N", "M"}),
        ("import numpy", {"numpy"}),
        ("if TYPE_CHECKING:\n    from .layout import Layout\n__all__ = []", {"Layout"}),
    ],
)
def test_a_disagreement_is_noticed(source: str, names: set[str]) -> None:
    assert disagreement(source) == names


def test_private_names_need_no_listing() -> None:
    assert disagreement("from __future__ import annotations\nfrom .layout import parse as _parse\n_N = 1") == set()
