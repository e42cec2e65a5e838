"""The probes' program: built once per state of its sources and per compiler, or carried by a tree that travels."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from afdep import build as native
from afdep.errors import BuildError
from harness.workspace import REPOSITORY

SOURCES = Path("harness/calibrate/native")
NAME = "probes"
FLAGS = ("-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-cudart", "static", "-Werror", "all-warnings")


def probes_hash(tree: Path = REPOSITORY) -> str:
    """`c` and 16 digits over the names and contents of the probes' sources."""
    digest = hashlib.sha256()
    for path in sorted((tree / SOURCES).iterdir()):
        digest.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return "c" + digest.hexdigest()[:16]


def carried(tree: Path = REPOSITORY) -> Path:
    """Where a tree carries the built program of exactly its sources."""
    return tree / "native" / probes_hash(tree) / NAME


def build(tree: Path = REPOSITORY, folder: Path | None = None) -> Path:
    """The program of a tree: the one it carries, or one from the cache, built if that does not have it.

    Args:
        tree: the tree whose sources are built.
        folder: the cache, by default that of the native libraries.

    Raises:
        BuildError: no nvcc, or its first error.
    """
    if (program := carried(tree)).exists():
        return program
    compiler = shutil.which("nvcc")
    if compiler is None:
        next_step = "Put the CUDA 13.0 compiler on PATH, or calibrate from a bundle, which carries the program."
        raise BuildError("compiler: expected nvcc on the PATH, received none.", next_step)
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    key = hashlib.sha256("\0".join([version, *FLAGS]).encode()).hexdigest()[:16]
    program = (folder or native.cache_folder()) / probes_hash(tree) / f"{NAME}_{key}"
    if not program.exists():
        _compile([compiler, *FLAGS, str(tree / SOURCES / "probes.cu")], program)
    return program


def _compile(command: list[str], program: Path) -> None:
    """Compile into a file of its own and rename it into place, so that several processes may build at once."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent, prefix=".building-") as scratch:
        output = Path(scratch) / program.name
        done = subprocess.run([*command, "-o", str(output)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or [""]
            raise BuildError(f"probes: expected to compile, received: {said[0].strip()}", "Needs nvcc 13.0 or newer.")
        output.replace(program)
