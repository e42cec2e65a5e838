"""Builds the native libraries of both targets into a cache keyed by what went into them."""

import ctypes
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from afdep import compiled, libraries
from afdep.digest import native_digest
from afdep.errors import BuildError
from afdep.libraries import SIDECAR as SIDECAR
from afdep.libraries import BuiltLibrary as BuiltLibrary
from afdep.libraries import sidecar as sidecar
from afdep.sources import RECIPES, Target
from afdep.tree import root

Fiber = Literal["warp", "thread"]

STEERING = (
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("LD_RUN_PATH", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG"),
)
"""Variables that change what a compiler makes of the same command; it does not see them."""


def cache_folder() -> Path:
    """Where built libraries are kept: $XDG_CACHE_HOME/afdep-comm, by default ~/.cache/afdep-comm."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "afdep-comm"


def build(
    fiber: Fiber = "warp",
    tree: Path | None = None,
    flags: tuple[str, ...] = RECIPES["sim"].optimisation,
    folder: Path | None = None,
) -> Path:
    """The simulator's shared library of a tree, built if the cache does not have it whole.

    Args:
        fiber: "warp" for one fiber a warp, "thread" for one a thread (slower; sees a missing warp barrier).
        tree: the tree whose sources are built, by default this one.
        flags: the compiler's optimisation and instrumentation.
        folder: the cache, by default `cache_folder()`.

    Several processes may build at once.

    Raises:
        BuildError: no compiler, its first error, or sources that changed while it ran.
        DigestError: a source is missing.
    """
    tree = tree or root()
    fibers = ("-DSIMGPU_THREAD_FIBERS",) if fiber == "thread" else ()
    job = _Job(
        target="sim",
        fiber=fiber,
        compilers=(_compiler(os.environ.get("CXX", "g++"), "Install g++ 11 or newer, or set CXX."),),
        flags=(*RECIPES["sim"].flags, *flags, *fibers),
        inputs=tuple(str(tree / unit) for unit in RECIPES["sim"].units),
    )
    return _cached(job, tree, folder or cache_folder())


def build_cuda(tree: Path | None = None, folder: Path | None = None) -> Path:
    """The CUDA target's shared library of a tree (sm_90a, static CUDA runtime), built if the cache does not have it.

    A tree that travels without a compiler carries its library: see `carried`.

    Args:
        tree: the tree whose sources are built, by default this one.
        folder: the cache, by default `cache_folder()`.

    Raises:
        BuildError: no nvcc, its first error, or sources that changed while it ran.
        DigestError: a source is missing.
    """
    tree = tree or root()
    if libraries.found(library := carried(tree)):
        return library
    nvcc = _compiler("nvcc", "Install the CUDA 13.0 compiler and put it on PATH.")
    host = _compiler(os.environ.get("NVCC_CCBIN", "g++"), "Install g++, which compiles nvcc's host code.")
    # nvcc names internal symbols by the path of what it compiles, and the linker orders by names. Read by way of
    # /dev/null, the unit has one path wherever its tree lies, and equal sources become equal bytes.
    (unit,) = RECIPES["cuda"].units
    job = _Job(
        target="cuda",
        fiber="none",
        compilers=(nvcc, host),
        flags=(*RECIPES["cuda"].flags, *RECIPES["cuda"].optimisation),
        inputs=("-ccbin", host, "-x", "cu", "-include", str(tree / unit), os.devnull),
    )
    return _cached(job, tree, folder or cache_folder())


def carry(tree: Path, folder: Path | None = None) -> Path:
    """Put the built CUDA library of a tree into it, where `carried` says.

    Args:
        tree: that travels without a compiler.
        folder: the cache it is taken from, by default `cache_folder()`.

    Returns:
        The library in the tree.

    Raises:
        BuildError: as `build_cuda`.
    """
    built, place = build_cuda(tree, folder), carried(tree)
    if built != place:
        with libraries.publishing(place) as output:
            shutil.copyfile(built, output)
            libraries.write(output, sidecar(built))
    return place


def carried(tree: Path | None = None) -> Path:
    """Where a tree carries the built CUDA library of exactly its native sources: `native/DIGEST` in the tree."""
    tree = tree or root()
    return tree / "native" / str(native_digest("cuda", tree)) / "libafdep_cuda.so"


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


@dataclass(frozen=True)
class _Job:
    """One run of a compiler: nvcc has a host compiler behind it, and is named first."""

    target: Target
    fiber: str
    compilers: tuple[str, ...]
    flags: tuple[str, ...]
    inputs: tuple[str, ...]

    @property
    def stem(self) -> str:
        return "libafdep_cuda" if self.target == "cuda" else f"libafdep_sim_{self.fiber}"

    @property
    def key(self) -> str:
        """Compilers are known by what they say of themselves: a build serves every machine that has the same ones."""
        named = [f"{Path(compiler).name} {_version(compiler)}" for compiler in self.compilers]
        return hashlib.sha256("\0".join([*named, *self.flags]).encode()).hexdigest()[:16]

    def command(self, digest: str) -> list[str]:
        return [self.compilers[0], *self.flags, f'-DAFDEP_NATIVE_DIGEST="{digest}"', *self.inputs]


def _cached(job: _Job, tree: Path, folder: Path) -> Path:
    digest = str(native_digest(job.target, tree))
    library = folder / f"{job.stem}_{job.key}" / digest / f"{job.stem}.so"
    if not libraries.found(library):
        with libraries.publishing(library) as output:
            _compile(job.command(digest), output)
            _require_unchanged(job.target, tree, digest)
            libraries.write(output, _about(job, digest, output))
    return library


def _require_unchanged(target: Target, tree: Path, digest: str) -> None:
    if (now := str(native_digest(target, tree))) != digest:
        raise BuildError(
            f"native sources: expected {digest} until they were compiled, received {now}.",
            "A file was saved meanwhile, and nothing was kept: build again.",
        )


def _about(job: _Job, digest: str, library: Path) -> BuiltLibrary:
    return BuiltLibrary(
        sha256=libraries.sha256_of(library),
        native_digest=digest,
        code_digest=str(compiled.code_digest(library)),
        target=job.target,
        fiber=job.fiber,
        compiler="; ".join(_version_line(compiler) for compiler in job.compilers),
        flags=job.flags,
    )


def _compiler(name: str, next_step: str) -> str:
    compiler = shutil.which(name)
    if compiler is None:
        raise BuildError(f"compiler: expected {name} on the PATH, received none.", next_step)
    return compiler


@cache
def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _version_line(compiler: str) -> str:
    numbered = [line for line in _version(compiler).splitlines() if re.search(r"\d\.\d", line)]
    return numbered[0] if numbered else Path(compiler).name


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in STEERING}


def _compile(command: list[str], output: Path) -> None:
    environment = _environment(os.environ)
    done = subprocess.run([*command, "-o", str(output)], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()[-1:] or [""]
        raise BuildError(
            f"native build: expected {output.name}, received exit code {done.returncode}: {said[0].strip()}",
            f"Needs g++ 11 or newer on x86-64, or nvcc 13.0; all it says: {shlex.join(command)}",
        )
