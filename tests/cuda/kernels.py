"""The sources that hold kernels, and what nvcc makes of them."""

from dataclasses import dataclass
from pathlib import Path

from vendor import hashes

ROOT = Path(__file__).parents[2]
SYMMETRIC = Path("vendor/elastic/instances.cu")
DIRECTED = Path("afdep/csrc/instances.cu")
PRIMITIVES = Path("tests/cuda/primitives.cu")
ROWS = Path("tests/cuda/rows.cu")


@dataclass(frozen=True)
class Compiled:
    """Machine-code hash by kernel, and ptxas's account of registers and spills."""

    code: dict[str, str]
    log: str


def compiled(source: Path, folder: Path) -> Compiled:
    cubin = folder / "kernels.cubin"
    log = hashes.compile_cubin(source, cubin)
    return Compiled(hashes.kernel_code(cubin.read_bytes()), log)
