"""Builds the native library of the simulator into a cache keyed by what went into it."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

from afdep.digest import TREE, native_digest
from afdep.errors import BuildError

Fiber = Literal["warp", "thread"]

_UNITS = (
    "afdep/csrc/sim_abi.cpp",
    "afdep/csrc/sim_world.cpp",
    "vendor/simgpu/engine.cpp",
    "vendor/simgpu/launch.cpp",
    "vendor/simgpu/late_stores.cpp",
    "vendor/simgpu/fiber.cpp",
)
# -ffp-contract=off: a fused multiply-add would round once where the kernels round twice.
_FLAGS = ("-std=c++20", "-march=x86-64-v3", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")


def cache_folder() -> Path:
    """Where built libraries are kept: $XDG_CACHE_HOME/afdep-comm, by default ~/.cache/afdep-comm."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "afdep-comm"


def build(
    fiber: Fiber = "warp", tree: Path = TREE, flags: tuple[str, ...] = ("-O3",), folder: Path | None = None
) -> Path:
    """The simulator's shared library of a tree, built if the cache does not have it.

    Args:
        fiber: "warp" for one fiber a warp, "thread" for one a thread (slower; sees a missing warp barrier).
        tree: the tree whose sources are built.
        flags: the compiler's optimisation and instrumentation.
        folder: the cache, by default `cache_folder()`.

    Several processes may build at once: each compiles into a file of its own and renames it into place.

    Raises:
        BuildError: no compiler, or the compiler's first error.
    """
    digest = native_digest(tree)
    command = [_compiler(), *_FLAGS, *flags, f'-DAFDEP_NATIVE_DIGEST="{digest}"']
    if fiber == "thread":
        command.append("-DSIMGPU_THREAD_FIBERS")
    key = hashlib.sha256("\0".join([_compiler_version(command[0]), *command]).encode()).hexdigest()[:16]
    library = (folder or cache_folder()) / str(digest) / f"libafdep_sim_{fiber}_{key}.so"
    if not library.exists():
        _compile(command, tree, library)
    return library


def _compiler() -> str:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise BuildError(
            f"compiler: expected {os.environ.get('CXX', 'g++')} on the PATH, received none.",
            "Install g++ 11 or newer, or set CXX.",
        )
    return compiler


@cache
def _compiler_version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _compile(command: list[str], tree: Path, library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".building-") as scratch:
        output = Path(scratch) / library.name
        sources = [str(tree / unit) for unit in _UNITS]
        done = subprocess.run([*command, *sources, "-o", str(output)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-1:]
            raise BuildError(
                f"native build: expected {library.name}, received exit code {done.returncode}: {errors[0].strip()}",
                f"Needs g++ 11 or newer on x86-64; the whole compiler output: {' '.join(command[:2])} {sources[0]}",
            )
        output.replace(library)
