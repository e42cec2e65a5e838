"""A wheel is the tree: in a fresh environment, far from the checkout, it runs exchanges and names its sources."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from afdep.digest import native_digest

SHARED = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}
PROGRAM = """
import json, sys
import numpy as np
import afdep
from afdep import Load, World, native_digest, proof, tree
world = World("1A1F", hidden=64, num_experts=2, top_k=1, capacity=4)
proof.prove(world, [Load([np.zeros((4, 1), np.int64)])], 4, 0)
digests = {target: str(native_digest(target)) for target in ("sim", "cuda")}
said = {"file": afdep.__file__, "root": str(tree.root()), "digests": digests, "ran": world.identity["digest"]}
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def source(root: Path, files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, since a build leaves its folders in it; one such folder holds a module that is gone."""
    copy = tmp_path_factory.mktemp("source")
    for file in files:
        target = copy / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    (copy / "build/lib/afdep").mkdir(parents=True)
    (copy / "build/lib/afdep/gone.py").write_text("")
    (copy / "vendor/__pycache__").mkdir()
    (copy / "vendor/__pycache__/hashes.pyc").write_text("")
    return copy


def made(source: Path, target: str) -> Path:
    """The wheel of a tree, built as `make wheel TARGET=...` does."""
    out = source / f"dist-{target}"
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    environment = {**os.environ, **SHARED, "WHEEL_TARGET": target}
    done = subprocess.run([*command, "-w", str(out), str(source)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.iterdir()
    return wheel


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    return made(source, "sim")


def installed(wheel: Path, folder: Path) -> Path:
    """The Python of a fresh environment that has the wheel, and sees what this one has installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)], check=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")) + "\n")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--no-compile", str(wheel)], check=True)
    return python


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(wheel, tmp_path_factory.mktemp("environment") / "venv")


def said_by(python: Path, program: str, folder: Path, **environ: str) -> str:
    """What a program says far from the checkout."""
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], **SHARED, **environ}
    done = subprocess.run([str(python), "-c", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names_in(wheel: Path) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def test_an_installed_wheel_runs_an_exchange_on_sources_of_the_same_digests(python: Path, tmp_path: Path) -> None:
    said = json.loads(said_by(python, PROGRAM, tmp_path))
    assert Path(said["file"]).is_relative_to(python.parents[1])
    assert said["root"] == str(Path(said["file"]).parent / "_tree")
    assert said["digests"] == {target: str(native_digest(target)) for target in ("sim", "cuda")}  # type: ignore[arg-type]
    assert said["ran"] == said["digests"]["sim"]


def test_a_wheel_has_no_names_at_the_top_but_the_two_packages(wheel: Path) -> None:
    assert {name.partition("/")[0] for name in names_in(wheel)} == {"afdep", "harness", "afdep_comm-0.2.0.dist-info"}
    assert wheel.name == "afdep_comm-0.2.0-py3-none-any.whl"


def test_a_wheel_carries_what_the_tree_has_and_nothing_that_is_gone(wheel: Path, root: Path, files: list[Path]) -> None:
    names = set(names_in(wheel))
    carried = [file.relative_to(root).as_posix() for file in files]
    parts = ("vendor/", "conf/", "records/published/", "records/upstream/", "afdep/csrc/")
    wanted = [name for name in carried if name.startswith(parts)]
    assert len(wanted) > 100
    assert {name for name in names if name.startswith("afdep/_tree/")} == {f"afdep/_tree/{name}" for name in wanted}
    python = {name for name in carried if name.startswith(("afdep/", "harness/")) and name.endswith(".py")}
    assert {name for name in names if name.endswith(".py") and not name.startswith("afdep/_tree/")} == python


def test_the_command_of_the_harness_is_declared(wheel: Path) -> None:
    text = zipfile.ZipFile(wheel).read("afdep_comm-0.2.0.dist-info/entry_points.txt").decode()
    assert "afdep-bench = harness.cli:console" in text


@pytest.mark.requires("nvcc")
def test_a_wheel_for_a_platform_has_the_cuda_library_and_needs_no_compiler(source: Path, tmp_path: Path) -> None:
    wheel = made(source, "cuda")
    assert wheel.name == "afdep_comm-0.2.0-py3-none-linux_x86_64.whl"
    program = (
        "from afdep import build\nlibrary = build.build_cuda()\nprint(library, build.build_info(library)['digest'])"
    )
    library, digest = said_by(installed(wheel, tmp_path / "venv"), program, tmp_path, PATH="").split()
    assert digest == str(native_digest("cuda"))
    assert f"site-packages/afdep/_tree/native/{digest}/" in library
