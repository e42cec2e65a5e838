"""Builds the native libraries of both targets into a cache keyed by what went into them."""

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Literal

from afdep.digest import native_digest
from afdep.errors import BuildError
from afdep.tree import root

Fiber = Literal["warp", "thread"]

_UNITS: tuple[str, ...] = (
    "afdep/csrc/sim_abi.cpp",
    "afdep/csrc/sim_buffers.cpp",
    "vendor/simgpu/engine.cpp",
    "vendor/simgpu/launch.cpp",
    "vendor/simgpu/late_stores.cpp",
    "vendor/simgpu/nic.cpp",
    "vendor/simgpu/watches.cpp",
    "vendor/simgpu/fiber.cpp",
)
# -ffp-contract=off: a fused multiply-add would round once where the kernels round twice.
_FLAGS = ("-std=c++20", "-march=x86-64-v3", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")
_CUDA_UNITS = ("afdep/csrc/cuda_abi.cu",)
_CUDA_FLAGS = (
    *("-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a"),
    *("-cudart", "static", "-shared", "-Xcompiler", "-fPIC"),
)


def cache_folder() -> Path:
    """Where built libraries are kept: $XDG_CACHE_HOME/afdep-comm, by default ~/.cache/afdep-comm."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "afdep-comm"


def build(
    fiber: Fiber = "warp", tree: Path | None = None, flags: tuple[str, ...] = ("-O3",), folder: Path | None = None
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
    command = [_compiler(os.environ.get("CXX", "g++"), "Install g++ 11 or newer, or set CXX."), *_FLAGS, *flags]
    if fiber == "thread":
        command.append("-DSIMGPU_THREAD_FIBERS")
    return _cached(command, _UNITS, f"libafdep_sim_{fiber}", tree, folder)


def build_cuda(tree: Path | None = None, folder: Path | None = None) -> Path:
    """The CUDA target's shared library of a tree (sm_90a, static CUDA runtime), built if the cache does not have it.

    A tree that travels without a compiler carries its library: see `carried`.

    Args:
        tree: the tree whose sources are built.
        folder: the cache, by default `cache_folder()`.

    Raises:
        BuildError: no nvcc, or the compiler's first error.
    """
    if (library := carried(tree)).exists():
        return library
    command = [_compiler("nvcc", "Install the CUDA 13.0 compiler and put it on PATH."), *_CUDA_FLAGS]
    return _cached(command, _CUDA_UNITS, "libafdep_cuda", tree, folder)


def carried(tree: Path | None = None) -> Path:
    """Where a tree carries the built CUDA library of exactly its native sources: `native/DIGEST` in the tree."""
    tree = tree or root()
    return tree / "native" / str(native_digest(tree)) / "libafdep_cuda.so"


def build_info(library: Path) -> dict[str, Any]:
    """What a built library of either target says it is: digest, target and fiber. It needs no GPU to say so.

    Raises:
        BuildError: not a library of ours.
    """
    try:
        report = ctypes.CDLL(str(library)).afdep_build_info
    except (OSError, AttributeError) as error:
        next_step = "Build it on this machine: make native TARGET=cuda."
        raise BuildError(f"native library: expected to load {library.name}, received: {error}.", next_step) from error
    report.restype = ctypes.c_char_p
    info: dict[str, Any] = json.loads(report())
    return info


def _cached(command: list[str], units: tuple[str, ...], stem: str, tree: Path | None, folder: Path | None) -> Path:
    tree = tree or root()
    digest = native_digest(tree)
    command = [*command, f'-DAFDEP_NATIVE_DIGEST="{digest}"']
    # The compiler is known by what it says of itself: a build on one machine serves another that has the same one.
    named = [_compiler_version(command[0]), Path(command[0]).name, *command[1:]]
    key = hashlib.sha256("\0".join(named).encode()).hexdigest()[:16]
    library = (folder or cache_folder()) / str(digest) / f"{stem}_{key}.so"
    if not library.exists():
        _compile(command, units, tree, library)
    return library


def _compiler(name: str, next_step: str) -> str:
    compiler = shutil.which(name)
    if compiler is None:
        raise BuildError(f"compiler: expected {name} on the PATH, received none.", next_step)
    return compiler


@cache
def _compiler_version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _compile(command: list[str], units: tuple[str, ...], tree: Path, library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".building-") as scratch:
        output = Path(scratch) / library.name
        sources = [str(tree / unit) for unit in units]
        done = subprocess.run([*command, *sources, "-o", str(output)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            errors = (
                [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-1:] or [""]
            )
            raise BuildError(
                f"native build: expected {library.name}, received exit code {done.returncode}: {errors[0].strip()}",
                f"Needs g++ 11 or newer on x86-64, or nvcc 13.0; all it says: {' '.join(command[:2])} {sources[0]}",
            )
        output.replace(library)
