"""The native sources of a target: the units that are compiled, our files that its compiler reads, and the flags."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from afdep.errors import DigestError, choices
from afdep.tree import root

Target = Literal["sim", "cuda"]

CUDA_MACRO = "__CUDACC__"
"""What nvcc defines and g++ does not; the one condition of ours that an include depends on."""


@dataclass(frozen=True)
class Recipe:
    """How the library of a target is made.

    Args:
        units: the sources that are compiled, by their path in the tree.
        flags: of the compiler, those that every build of the target has.
        optimisation: those that a build may replace: for sanitizers, or to compile faster.
    """

    units: tuple[str, ...]
    flags: tuple[str, ...]
    optimisation: tuple[str, ...]


RECIPES: dict[Target, Recipe] = {
    "sim": Recipe(
        units=(
            *("afdep/csrc/sim_abi.cpp", "afdep/csrc/sim_buffers.cpp"),
            *("vendor/simgpu/engine.cpp", "vendor/simgpu/launch.cpp", "vendor/simgpu/late_stores.cpp"),
            *("vendor/simgpu/nic.cpp", "vendor/simgpu/watches.cpp", "vendor/simgpu/fiber.cpp"),
        ),
        # -ffp-contract=off: a fused multiply-add would round once where the kernels round twice.
        flags=("-std=c++20", "-march=x86-64-v3", "-ffp-contract=off", "-fPIC", "-shared", "-pthread"),
        optimisation=("-O3",),
    ),
    "cuda": Recipe(
        units=("afdep/csrc/cuda_abi.cu",),
        # --no-compress: the code digest reads the kernels in the library without a tool of CUDA.
        flags=(
            *("-std=c++20", "-gencode=arch=compute_90a,code=sm_90a", "--no-compress"),
            *("-cudart", "static", "-shared", "-Xcompiler", "-fPIC"),
        ),
        optimisation=("-O3",),
    ),
}


def recipe(target: object) -> Recipe:
    """The recipe of a target.

    Raises:
        DigestError: neither "sim" nor "cuda".
    """
    if target not in RECIPES:
        raise DigestError(f"target: expected a known name, received {target!r}.", choices(target, tuple(RECIPES)))
    return RECIPES[target]


def logical(path: str) -> str:
    """The name of a native source wherever the tree lies: `elastic/prim.cuh`, `simgpu/nic.cpp`, `csrc/abi.h`."""
    folder, _, name = path.partition("/")
    return name if folder in ("vendor", "afdep") else path


def native_sources(
    target: Target, tree: Path | None = None, edits: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Content of every file of ours that the compiler of a target reads, by logical name.

    Args:
        target: "sim" or "cuda".
        tree: by default this one.
        edits: texts in place of those of some files, or of files that are not there: by path in the tree, or logical.

    Raises:
        DigestError: a unit, or a file that one includes, is neither in the tree nor among the edits.
    """
    tree = tree or root()
    edited = {logical(path): text.encode() for path, text in (edits or {}).items()}
    found: dict[str, bytes] = {}
    waiting = [(unit, "the build") for unit in recipe(target).units]
    while waiting:
        path, includer = waiting.pop()
        if (name := logical(path)) not in found:
            found[name] = edited[name] if name in edited else _read(tree, path, includer)
            folder = posixpath.dirname(path)
            waiting += [(posixpath.normpath(f"{folder}/{file}"), name) for file in _includes(found[name], target)]
    return dict(sorted(found.items()))


def _read(tree: Path, path: str, includer: str) -> bytes:
    try:
        return (tree / path).read_bytes()
    except OSError as error:
        raise DigestError(
            f"native sources: expected {path}, which {includer} names, received no such file.",
            "Export the whole tree, with vendor/ and afdep/csrc/.",
        ) from error


_DIRECTIVE = re.compile(
    r'^[ \t]*#[ \t]*(?:(include)[ \t]*"([^"]+)"|(if|ifdef|ifndef|elif|else|endif)\b[ \t]*(\w*))', re.MULTILINE
)


@lru_cache(maxsize=512)
def _includes(content: bytes, target: Target) -> tuple[str, ...]:
    """Files that a source includes in quotes; under conditions other than CUDA_MACRO, those of every branch."""
    found: list[str] = []
    branches: list[bool | None] = []  # whether the target takes each branch that is open; None where it may
    for match in _DIRECTIVE.finditer(content.decode()):
        include, file, directive, word = match.groups()
        if include:
            if False not in branches:
                found.append(file)
        elif directive == "endif":
            branches.pop()
        elif directive in ("else", "elif"):
            branches[-1] = None if branches[-1] is None else not branches[-1]
        else:
            known = word == CUDA_MACRO and directive in ("ifdef", "ifndef")
            branches.append((target == "cuda") is (directive == "ifdef") if known else None)
    return tuple(found)
