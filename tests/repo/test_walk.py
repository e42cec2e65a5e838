"""The walks of docs/architecture.md are ways through the code: each stop calls the next, or hands back to it."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_STOPS = 10
PACKAGES = ("harness", "afdep")


def walks(text: str) -> list[list[tuple[str, str]]]:
    """File and function of every stop, walk by walk: a walk is a table whose first line has `| stop |`."""
    found: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        if line.startswith("| stop |"):
            found.append([])
        elif stop := re.match(r"\| \d+ \| `([^`]+)` \| `([^`]+)` \|", line):
            found[-1].append((stop[1], stop[2]))
    return found


WALKS = walks((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
STEPS = [(number, walk[at], walk[at + 1]) for number, walk in enumerate(WALKS) for at in range(len(walk) - 1)]


@cache
def definitions(path: Path) -> dict[str, ast.stmt]:
    """Functions, classes, methods and tables of a file by their qualified names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{one.name}": one for one in node.body if isinstance(one, ast.FunctionDef)}
    return found


def file_of(module: str) -> Path | None:
    path = ROOT / Path(*module.split("."))
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


@cache
def imports(path: Path) -> dict[str, tuple[str, str]]:
    """What a name of a file stands for: a module of ours, and the name in it (empty for the module itself)."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                found[one.asname or one.name] = (whole, "") if file_of(whole) else (node.module, one.name)
    return found


def called(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Functions of ours that a function, or any method of a class, names; places in texts as `harness.core.worker`."""
    own, scope = definitions(path), name.partition(".")[0]
    heirs = own[scope].bases if isinstance(own[scope], ast.ClassDef) and scope != name else []
    for node in [*ast.walk(own[name]), *heirs]:
        if isinstance(node, ast.Name):
            if node.id in own:
                yield path, node.id
            elif node.id in imports(path):
                module, what = imports(path)[node.id]
                yield from _in(module, what)
        elif isinstance(node, ast.Attribute):
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            if base == "self" and f"{scope}.{node.attr}" in own:
                yield path, f"{scope}.{node.attr}"
            elif base in imports(path) and not imports(path)[base][1]:
                yield from _in(imports(path)[base][0], node.attr)
            else:
                yield path, f"?.{node.attr}"  # of something that is known when it runs
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            module, _, what = node.value.partition(":")
            if module.split(".")[0] in PACKAGES and re.fullmatch(r"[a-z_.]+", module) and "." in module:
                yield from _in(module, what or "main")


def _in(module: str, name: str) -> Iterator[tuple[Path, str]]:
    if module.count(".") == 0:  # a front that loads what it names
        whole = importlib.import_module(module)
        module = getattr(getattr(whole, name, None), "__module__", module)
    if (path := file_of(module)) is not None and name in definitions(path):
        yield path, name


def reaches(start: tuple[str, str], goal: tuple[str, str]) -> bool:
    """Whether a stop calls another: at once, or through functions of its own package."""
    first, last = (ROOT / start[0], start[1]), (ROOT / goal[0], goal[1])
    if last[0].suffix == ".hpp":
        return last[1].split()[-1] in last[0].read_text() and "hidden" in first[0].read_text()
    wanted = {last, (last[0], last[1].removesuffix(".__init__"))}
    dynamic = f"?.{last[1].removesuffix('.__init__').rpartition('.')[2]}"
    seen, waiting = set(), [first]
    while waiting:
        path, name = waiting.pop()
        for found in called(path, name):
            if found in wanted or found[1] == dynamic:
                return True
            inside = found[0].parent == first[0].parent or start[0].startswith("afdep/")
            if inside and not found[1].startswith("?") and found not in seen:
                seen.add(found)
                waiting.append(found)
    return False


def test_there_are_two_walks_of_ten_stops_at_most() -> None:
    assert len(WALKS) == 2
    assert all(5 < len(walk) <= MOST_STOPS for walk in WALKS)
    assert WALKS[0][0] == ("harness/cli.py", "main")
    assert WALKS[0][-1][0].startswith("afdep/csrc/")


@pytest.mark.parametrize("stop", [stop for walk in WALKS for stop in walk], ids=":".join)
def test_a_stop_is_there(stop: tuple[str, str]) -> None:
    path, name = ROOT / stop[0], stop[1]
    if path.suffix == ".py":
        assert name in definitions(path)
    else:
        assert f"class {name} {{" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("walk", "stop", "following"), STEPS, ids=[f"{walk} {one[1]} to {other[1]}" for walk, one, other in STEPS]
)
def test_each_stop_calls_the_next(walk: int, stop: tuple[str, str], following: tuple[str, str]) -> None:
    assert reaches(stop, following) or (walk == 1 and reaches(following, stop))


def test_a_walk_that_leaves_out_a_stop_is_no_way() -> None:
    python = WALKS[0][:-1]
    broken = [(python[at], python[at + 2]) for at in range(len(python) - 2) if python[at + 2][1] != "run"]
    assert len(broken) > 3  # `run` is called by its name alone, of whichever program it is
    assert [step for step in broken if reaches(*step)] == []
