"""Planted trees for GPUs, and the libraries built from them."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from afdep import build
from afdep.digest import native_digest
from harness.faults.guards import GUARDS, Guard
from harness.faults.late import LATES
from harness.faults.plant import CUDA_ABI, KERNELS, PRIM, SIM_ABI, Edit, copied, edit

NATIVE = Path(__file__).parent / "native"
HEADER = "faults.cuh"
ABIS = {CUDA_ABI: "faults_abi.cu", SIM_ABI: "faults_sim.cpp"}
"""What is appended to the C ABI of each target."""

SHIPPED, LATE = "shipped", "late"
"""The library as it is shipped, and the one with every delay and no guard less."""

_INSTANCES = (
    (r"    case (?:8|4|3): return Family::template get<.*\n", 3, ""),
    (r"default: return Family::template get<1,", 1, "default: return Family::template get<2,"),
    (r"    case (?:512|896): return of_prefix<.*\n", 2, ""),
    (r"    case [32]: return of_prefix<Family.*\n", 2, ""),
    (
        r"default: return of_prefix<Family, 1, 1024>\(prefix\);",
        1,
        "default: return of_long_rows<Family>(prefix, threads);",
    ),
)
"""Of the reductions, the one for rows of a multiple of 2 KB and two rows without a branch: it sums any number."""


def edits_of(guard: Guard | None) -> tuple[Edit, ...]:
    """What is edited in a planted tree: the guard goes, and every place can be late.

    Args:
        guard: the one that goes, or None.
    """
    lates = [one for late in LATES for one in late.edits]
    header: Edit = (PRIM, "#endif\n", f'#endif\n#include "{HEADER}"\n')
    return (header, *(guard.edits if guard is not None else ()), *lates)


def tree(guard: Guard | None, folder: Path) -> Path:
    """A copy of the tree that is planted for GPUs; the simulator builds from it too.

    Raises:
        AssertionError: a text that an edit replaces is not there exactly once.
    """
    made = copied(folder)
    edit(made, edits_of(guard))
    shutil.copy(NATIVE / HEADER, made / Path(PRIM).parent / HEADER)
    for abi, more in ABIS.items():
        with (made / abi).open("a", encoding="utf-8") as stream:
            stream.write((NATIVE / more).read_text(encoding="utf-8"))
    _drop_instances(made / KERNELS)
    return made


def _drop_instances(kernels: Path) -> None:
    text = kernels.read_text(encoding="utf-8")
    for pattern, expected, instead in _INSTANCES:
        text, found = re.subn(pattern, instead, text)
        assert found == expected, f"kernels.hpp: expected {expected} times {pattern!r}, received {found}"
    kernels.write_text(text, encoding="utf-8")


def library(guard: Guard | None, target: Path) -> str:
    """Build the library of a planted tree as `target`; its digest.

    Raises:
        BuildError: it does not build.
    """
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        planted = tree(guard, Path(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(build.build_cuda(planted), target)
        digest = str(native_digest("cuda", planted))
    strip(target)
    return digest


def strip(target: Path) -> None:
    """Drop the names of a library that nobody asks for."""
    subprocess.run(["strip", str(target)], check=True)


def build_all(folder: Path, listen: Callable[[str], None], guards: Sequence[Guard] = GUARDS) -> dict[str, str]:
    """Build every library into a folder, as NAME.so.

    Args:
        folder: where to.
        listen: told the name of each as it is done.
        guards: those to build for, beside the shipped library and the one with delays alone.

    Returns:
        The native digest of each, by name.

    Raises:
        BuildError: one does not build.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(build.build_cuda(), folder / f"{SHIPPED}.so")
    strip(folder / f"{SHIPPED}.so")
    digests = {SHIPPED: str(native_digest("cuda"))}
    wanted: list[tuple[str, Guard | None]] = [(LATE, None), *((guard.slug, guard) for guard in guards)]
    for name, guard in wanted:
        digests[name] = library(guard, folder / f"{name}.so")
        listen(name)
    return digests
