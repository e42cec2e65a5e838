"""A protocol bug in a copy of the tree, and the library built from it."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal
from uuid import uuid4

from afdep import build
from afdep.build import Fiber
from afdep.digest import native_digest
from afdep.sources import RECIPES
from afdep.tree import root

DIRECTED = "afdep/csrc/directed.cuh"
SYMMETRIC = "vendor/elastic/symmetric.cuh"
DISPATCH = "vendor/elastic/dispatch.cuh"
COMBINE = "vendor/elastic/combine.cuh"
COLUMNS = "vendor/elastic/combine_columns.cuh"
NOTIFY = "vendor/elastic/notify.cuh"
BARRIER = "vendor/elastic/barrier.cuh"
COPY_EPILOGUE = "vendor/elastic/copy_epilogue.cuh"
REDUCE_EPILOGUE = "vendor/elastic/reduce_epilogue.cuh"
COPY_REPLIES = "vendor/elastic/copy_replies.cuh"
KERNELS = "afdep/csrc/kernels.hpp"
BUFFERS = "afdep/csrc/sim_buffers.cpp"
EXCHANGE = "vendor/elastic/exchange.cuh"
FAILURE = "vendor/elastic/failure.cuh"
PRIM = "vendor/elastic/prim.cuh"
PRIM_MEMORY = "vendor/elastic/prim_cuda_memory.cuh"
CUDA_ABI = "afdep/csrc/cuda_abi.cu"
SIM_ABI = "afdep/csrc/sim_abi.cpp"
KERNEL_UNITS = (SIM_ABI, BUFFERS)


Edit = tuple[str, str, str]
"""A file of the tree, a text that is in it once, and the text that takes its place."""


@dataclass(frozen=True)
class Plant:
    """One bug.

    Args:
        name: what is wrong.
        kind: the class of bug.
        arm: the arm it is in.
        edits: (file, text as shipped, text with the bug).
        budget: seeds within which the hunt must find it.
        ends_in: the error it must end in.
        fiber: "thread" where only thread fibers can see it.
        tokens: the hunt's capacity, where the small one never uses a slot of the kernel twice.
        aborts: share of the seeds in which a rank gives up.
        finder: "races" where the happens-before checker finds it and the hunt does not.
    """

    name: str
    kind: str
    arm: str
    edits: tuple[Edit, ...]
    budget: int
    ends_in: str = "MismatchError"
    fiber: Fiber = "warp"
    tokens: int | None = None
    aborts: float = 0.0
    finder: Literal["hunt", "races"] = "hunt"

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def copied(folder: Path) -> Path:
    """A copy of the tree's native sources and its Python package, in a new folder below `folder`."""
    tree = folder / "tree"
    for part in ("vendor", "afdep"):
        shutil.copytree(root() / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


def edit(tree: Path, edits: Sequence[Edit]) -> None:
    """Apply edits to a copy of the tree, in order: each finds what those before it left.

    Raises:
        AssertionError: a text that is to be replaced is not there exactly once.
    """
    for file, shipped, planted_text in edits:
        text = (tree / file).read_text(encoding="utf-8")
        assert text.count(shipped) == 1, f"{file}: expected once, received {text.count(shipped)} times: {shipped!r}"
        (tree / file).write_text(text.replace(shipped, planted_text), encoding="utf-8")


def planted(plant: Plant, folder: Path) -> Path:
    """A copy of the tree with the bug in it.

    Raises:
        AssertionError: the shipped text is not there exactly once.
    """
    tree = copied(folder)
    edit(tree, plant.edits)
    _drop_reductions(tree / KERNELS)
    return tree


def build_with(plant: Plant, folder: Path) -> Path:
    """The native library of a copy of the tree with the bug in it, from the cache if it is there."""
    tree = planted(plant, folder)
    digest = native_digest("sim", tree)
    library = build.cache_folder() / str(digest) / f"plant_{plant.fiber}.so"
    if not library.exists():
        units = [str(tree / unit) for unit in KERNEL_UNITS]
        compile_units(
            library, plant.fiber, "-shared", f'-DAFDEP_NATIVE_DIGEST="{digest}"', *units, str(_engine(plant.fiber))
        )
    return library


def _drop_reductions(kernels: Path) -> None:
    """Leave the reduction of short rows alone, as the hunt has them: a third of the time to compile."""
    chosen = r"    case [234]: return of_(?:prefix|long_rows)<.*\n"
    text, dropped = re.subn(chosen, "", kernels.read_text(encoding="utf-8"))
    assert dropped == 3, "expected the kernels chosen by the unrolling of their reduction"
    kernels.write_text(text, encoding="utf-8")


@cache
def _engine(fiber: Fiber) -> Path:
    """The units that no plant is in, compiled once for all plants."""
    units = [str(root() / unit) for unit in RECIPES["sim"].units if unit not in KERNEL_UNITS]
    whole = build.cache_folder() / str(native_digest("sim")) / f"plant_engine_{fiber}.o"
    if not whole.exists():
        compile_units(whole, fiber, "-r", "-nostdlib", *units)
    return whole


def compile_units(output: Path, fiber: Fiber, *arguments: str) -> None:
    """Compile and link with the flags of the simulator's library, into a file of its own that is renamed into place."""
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_suffix(f".{uuid4().hex}")
    flags = [flag for flag in RECIPES["sim"].flags if flag != "-shared"]
    flags += ["-DSIMGPU_THREAD_FIBERS"] * (fiber == "thread")
    subprocess.run(["g++", *flags, "-O1", *arguments, "-o", str(unfinished)], check=True)
    unfinished.replace(output)
