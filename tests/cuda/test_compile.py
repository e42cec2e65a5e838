"""Every kernel compiles for the GPU, and the symmetric kernels' machine code is the pinned one."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cuda.kernels import DIRECTED, PRIMITIVES, ROOT, ROWS, SYMMETRIC, Compiled, compiled
from vendor import hashes

Plant = Callable[[str, str, str], Path]
KERNELS = [
    pytest.param(SYMMETRIC, "8dispatchINS_9Symmetric", id="dispatch-symmetric"),
    pytest.param(SYMMETRIC, "13copy_epilogue", id="copy_epilogue"),
    pytest.param(SYMMETRIC, "7combineINS_9SymmetricELi2ELi4ELi1024E", id="combine-symmetric-prefix2"),
    pytest.param(SYMMETRIC, "7combineINS_9SymmetricELi4ELi4ELi1024E", id="combine-symmetric-prefix4"),
    pytest.param(SYMMETRIC, "7combineINS_9SymmetricELi2ELi4ELi896E", id="combine-symmetric-prefix2-896-threads"),
    pytest.param(SYMMETRIC, "7combineINS_9SymmetricELi4ELi4ELi896E", id="combine-symmetric-prefix4-896-threads"),
    pytest.param(SYMMETRIC, "7combineINS_9SymmetricELi2ELi4ELi512E", id="combine-symmetric-prefix2-512-threads"),
    pytest.param(SYMMETRIC, "15reduce_epilogueILi2ELi4ELi1024E", id="reduce_epilogue-prefix2"),
    pytest.param(SYMMETRIC, "15reduce_epilogueILi4ELi4ELi1024E", id="reduce_epilogue-prefix4"),
    pytest.param(SYMMETRIC, "15reduce_epilogueILi2ELi4ELi896E", id="reduce_epilogue-prefix2-896-threads"),
    pytest.param(SYMMETRIC, "15reduce_epilogueILi4ELi4ELi896E", id="reduce_epilogue-prefix4-896-threads"),
    pytest.param(DIRECTED, "8dispatchIN5afdep8Directed", id="dispatch-directed"),
    pytest.param(DIRECTED, "7combineIN5afdep8DirectedELi2ELi4ELi1024E", id="combine-directed-prefix2"),
    pytest.param(DIRECTED, "15combine_columnsIN5afdep8Directed", id="combine_columns-directed"),
    pytest.param(DIRECTED, "12copy_replies", id="copy_replies"),
    pytest.param(DIRECTED, "16expert_transform", id="expert_transform"),
    pytest.param(PRIMITIVES, "5probe", id="primitives"),
    pytest.param(ROWS, "9push_rows", id="push_rows"),
    pytest.param(ROWS, "9take_rows", id="take_rows"),
]
ROLE_CHANGE = ("afdep/csrc/directed.cuh", "load(rounds) + 1", "load(rounds) + 2")
KERNEL_CHANGE = ("vendor/elastic/notify.cuh", "kNotifyWarps = 4", "kNotifyWarps = 3")

ORIGINAL_SPILL_BYTES = 2 * 92
"""Stores and loads that the original's combine spills at least, at 64 registers a thread and rows of 4 KB."""

pytestmark = pytest.mark.requires("nvcc")


def reduces(kernel: object) -> bool:
    """Whether a kernel sums rows: the original spills there too."""
    return "7combine" in str(kernel) or "reduce_epilogue" in str(kernel)


def spill_bytes(log: str, kernel: str) -> int:
    """Return what ptxas says of the entry function whose mangled name holds `kernel`."""
    found = re.search(
        rf"entry function '\S*{kernel}\S*'.*?(\d+) bytes spill stores, (\d+) bytes spill loads", log, re.S
    )
    assert found is not None
    return int(found[1]) + int(found[2])


@pytest.mark.parametrize(("source", "kernel"), KERNELS)
def test_every_kernel_compiles_for_sm_90a(cubins: dict[Path, Compiled], source: Path, kernel: str) -> None:
    assert sum(kernel in name for name in cubins[source].code) == 1


@pytest.mark.parametrize("source", [SYMMETRIC, DIRECTED, PRIMITIVES, ROWS])
def test_no_kernel_escapes_the_list(cubins: dict[Path, Compiled], source: Path) -> None:
    assert len(cubins[source].code) == sum(source in case.values for case in KERNELS)


@pytest.mark.parametrize(("source", "kernel"), [case for case in KERNELS if not reduces(case.values[1])])
def test_no_kernel_without_a_reduction_spills_registers(
    cubins: dict[Path, Compiled], source: Path, kernel: str
) -> None:
    assert spill_bytes(cubins[source].log, kernel) == 0


@pytest.mark.parametrize(("source", "kernel"), [case for case in KERNELS if reduces(case.values[1])])
def test_a_reduction_spills_no_more_than_the_original(cubins: dict[Path, Compiled], source: Path, kernel: str) -> None:
    assert spill_bytes(cubins[source].log, kernel) <= ORIGINAL_SPILL_BYTES


def test_a_spill_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "spills.cu"
    loads, sums = (
        "for (int i = 0; i < 64; ++i) v[i] = p[i * 99];",
        "for (int i = 0; i < 64; ++i) p[i] = v[i] * v[63 - i];",
    )
    body = f"int v[64];\n#pragma unroll\n{loads}\n__syncthreads();\n#pragma unroll\n{sums}"
    source.write_text(f"__global__ void __maxnreg__(32) full(volatile int* p) {{\n{body}\n}}\n")
    assert spill_bytes(compiled(source, tmp_path).log, "full") > 0


def test_the_symmetric_kernels_match_their_pins(cubins: dict[Path, Compiled]) -> None:
    version = hashes.nvcc_version()
    assert version is not None
    pinned = hashes.read_pins(ROOT / "vendor").of_version(version)
    assert cubins[SYMMETRIC].code == pinned, f"nvcc {version}: if the change is meant, run `make hashes`"


def test_a_role_change_elsewhere_alters_only_the_role_kernels(cubins: dict[Path, Compiled], planted: Plant) -> None:
    tree = planted(*ROLE_CHANGE)
    assert compiled(tree / SYMMETRIC, tree).code == cubins[SYMMETRIC].code
    assert compiled(tree / DIRECTED, tree).code != cubins[DIRECTED].code


def test_a_kernel_change_alters_the_symmetric_kernels(cubins: dict[Path, Compiled], planted: Plant) -> None:
    tree = planted(*KERNEL_CHANGE)
    changed = hashes.differences(cubins[SYMMETRIC].code, compiled(tree / SYMMETRIC, tree).code)
    assert [name for name in changed if "8dispatch" in name] == changed != []


def test_the_probe_has_a_program_that_runs_it(tmp_path: Path) -> None:
    source, program = ROOT / "tests/cuda/run_primitives.cu", tmp_path / "run_primitives.o"
    subprocess.run(["nvcc", *hashes.NVCC_FLAGS, "-Werror=all-warnings", "-c", source, "-o", program], check=True)
    assert program.stat().st_size > 0


def test_a_source_that_nvcc_refuses_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken.cu").write_text("__global__ void f() { undeclared(); }\n")
    with pytest.raises(hashes.CompileError, match=r"^broken.cu: expected to compile for sm_90a"):
        compiled(tmp_path / "broken.cu", tmp_path)
