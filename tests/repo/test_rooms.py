"""The rooms of the library: front <- sim, cuda; front, sim <- proof; no circle; and a front that loads lazily."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import afdep

ROOMS = ("sim", "cuda", "proof")
ALLOWED = {"front": {"front"}, "sim": {"front", "sim"}, "cuda": {"front", "cuda"}, "proof": {"front", "sim", "proof"}}
Graph = dict[str, set[str]]


def modules(root: Path) -> dict[str, Path]:
    """Module name to file; a package by its own name."""
    found = {}
    for file in sorted((root / "afdep").rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imported(name: str, file: Path, known: set[str]) -> Iterator[str]:
    """The modules of the library that one imports: at the top, in functions and for type checkers alike."""
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
            yield from (name if name in known else base for name in names if base in known)


def graph_of(root: Path) -> Graph:
    known = modules(root)
    return {name: set(imported(name, file, set(known))) for name, file in known.items()}


def circles(graph: Graph) -> list[list[str]]:
    """A way through each circle that a walk along the imports meets."""
    found, done = [], set()

    def walk(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        if name in done or name in path:
            return
        for other in sorted(graph[name]):
            walk(other, [*path, name])
        done.add(name)

    for name in sorted(graph):
        walk(name, [])
    return found


def room(name: str) -> str:
    second = name.split(".")[1]
    return second if second in ROOMS else "front"


def wrong_arrows(graph: Graph) -> list[str]:
    """Imports against the arrows; the package itself names what is public, wherever it is."""
    pairs = [(name, other) for name, others in graph.items() if name != "afdep" for other in others]
    return [
        f"{name} imports {other}" for name, other in pairs if other == "afdep" or room(other) not in ALLOWED[room(name)]
    ]


def own_packages(graph: Graph) -> list[str]:
    """Modules that import a package they lie in, for more than its modules."""
    return [
        f"{name} imports {other}" for name, others in graph.items() for other in others if name.startswith(f"{other}.")
    ]


def planted(root: Path, files: dict[str, str]) -> Graph:
    texts = {"afdep/__init__.py": "", "afdep/arms.py": "", "afdep/sim/__init__.py": "", "afdep/cuda/__init__.py": ""}
    for name, text in (texts | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return graph_of(root)


def test_no_module_of_the_library_imports_itself_by_way_of_others(root: Path) -> None:
    graph = graph_of(root)
    assert len(graph) > 40
    assert circles(graph) == []


def test_the_arrows_between_the_rooms_point_one_way(root: Path) -> None:
    assert wrong_arrows(graph_of(root)) == []


def test_no_module_imports_the_package_it_lies_in(root: Path) -> None:
    assert own_packages(graph_of(root)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from afdep.controls import bits",
        "from afdep import controls",
        "import afdep.controls",
        "from .controls import bits",
        "def f():\n    from afdep.controls import bits",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from afdep.controls import bits",
    ],
)
def test_a_circle_is_noticed(tmp_path: Path, text: str) -> None:
    graph = planted(tmp_path, {"afdep/controls.py": "from afdep.arms import Arm", "afdep/arms.py": text})
    assert circles(graph) == [["afdep.arms", "afdep.controls", "afdep.arms"]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("afdep/build.py", "from afdep.sim.world import World"),
        ("afdep/build.py", "def f():\n    import afdep.proof"),
        ("afdep/sim/case.py", "from afdep.proof import prove"),
        ("afdep/sim/case.py", "from afdep import cuda"),
        ("afdep/cuda/case.py", "from afdep.sim.world import World"),
        ("afdep/proof/case.py", "from afdep.cuda import Buffer"),
        ("afdep/sim/case.py", "from afdep import World"),
    ],
)
def test_an_arrow_that_points_the_other_way_is_noticed(tmp_path: Path, name: str, text: str) -> None:
    others = {"afdep/sim/world.py": "", "afdep/proof/__init__.py": ""}
    assert len(wrong_arrows(planted(tmp_path, {**others, name: text}))) == 1


@pytest.mark.parametrize(("text", "count"), [("from afdep.sim import World", 1), ("from afdep.sim import world", 0)])
def test_an_import_of_the_own_package_is_noticed(tmp_path: Path, text: str, count: int) -> None:
    assert len(own_packages(planted(tmp_path, {"afdep/sim/world.py": "", "afdep/sim/case.py": text}))) == count


def loaded_by(statement: str, *lacking: str) -> set[str]:
    """What a fresh process has loaded behind a statement, where some modules cannot be imported."""
    barrier = f"import sys\nsys.modules.update(dict.fromkeys({lacking!r}))\n"
    code = f"{barrier}{statement}\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def rooms_of(loaded: set[str]) -> set[str]:
    return {room(name) for name in loaded if name.startswith("afdep.")} - {"front"}


def test_importing_the_library_loads_nothing_but_its_front() -> None:
    loaded = loaded_by("import afdep")
    assert {name for name in loaded if name.partition(".")[0] == "afdep"} == {"afdep", "afdep.lazy"}
    assert not loaded & {"torch", "numpy"}


@pytest.mark.parametrize(
    ("name", "rooms"),
    [
        ("Layout", set()),
        ("native_digest", set()),
        ("World", {"sim"}),
        ("proof.draw", {"proof"}),
        ("proof.checks", {"proof"}),
    ],
)
def test_a_name_loads_the_rooms_it_needs(name: str, rooms: set[str]) -> None:
    import_ = "import afdep.proof.checks\n" if name == "proof.checks" else "import afdep\n"
    loaded = loaded_by(f"{import_}afdep.{name}")
    assert rooms_of(loaded) == rooms
    assert "torch" not in loaded


@pytest.mark.requires("torch")
def test_a_buffer_on_a_gpu_needs_torch_and_neither_the_simulator_nor_proofs() -> None:
    loaded = loaded_by("from afdep import Buffer\nassert Buffer.__module__ == 'afdep.cuda.buffer'")
    assert "torch" in loaded
    assert rooms_of(loaded) == {"cuda"}


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'afdep' has no attribute 'Buffr'"):
        _ = afdep.Buffr
    assert set(afdep.__all__) <= set(dir(afdep))
