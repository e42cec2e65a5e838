"""Both targets offer the same primitives, and each does on the CPU what the probe expects of it."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.cuda.kernels import PRIMITIVES, ROOT
from vendor import hashes

CUDA = sorted((ROOT / "vendor/elastic").glob("prim_cuda*.cuh"))
NIC_CUDA, NIC_CPU = ROOT / "vendor/elastic/prim_nic.cuh", ROOT / "vendor/simgpu/prim_nic.hpp"
CPU = sorted(set((ROOT / "vendor/simgpu").glob("prim*.hpp")) - {NIC_CPU})
DECLARED = re.compile(
    r"^(?:SIMGPU_UNSEEN )?(?:PRIM_FN|PRIM_HOST_FN|inline|__device__) (?:constexpr )?[\w:<>*]+ (\w+)\("
    r"|^(?:class|struct) (?:alignas\(\d+\) )?(\w+)",
    re.M,
)
INNER = re.compile(r"namespace detail \{.*?\}  // namespace detail", re.S)
CPU_ONLY = {"self", "charge", "cost", "own_rank", "leads", "exchange", "LaneSection", "Alike"}
CUDA_ONLY = {"WaitRecord"}
IMPORTED = {"Wait"}  # the CPU target takes it from the engine


def declared(files: list[Path]) -> set[str]:
    texts = (INNER.sub("", file.read_text("utf-8")) for file in files)
    return {function or type_ for text in texts for function, type_ in DECLARED.findall(text)}


def used(source: Path) -> set[str]:
    return set(re.findall(r"prim::(\w+)", source.read_text("utf-8")))


def test_both_targets_offer_the_same_primitives() -> None:
    assert declared(CUDA) - CUDA_ONLY == declared(CPU) - CPU_ONLY | IMPORTED


def test_the_probe_uses_every_primitive() -> None:
    implied = {"Lanes"}  # the type of lanes(f)
    assert declared(CUDA) - CUDA_ONLY - implied - used(ROOT / PRIMITIVES) == set()


def test_the_nic_is_declared_for_the_gpu_as_the_simulator_has_it() -> None:
    assert declared([NIC_CUDA]) == declared([NIC_CPU])
    assert {"NicQueue", "nic_put", "nic_ring"} <= declared([NIC_CUDA])


@pytest.mark.requires("nvcc")
@pytest.mark.parametrize(("call", "compiles"), [("", True), ("prim::nic_ring({0, 0});", False)])
def test_a_kernel_that_calls_the_nic_does_not_compile_for_a_gpu(tmp_path: Path, call: str, compiles: bool) -> None:
    source = tmp_path / "calls.cu"
    source.write_text(f'#include "{NIC_CUDA}"\n__global__ void calls() {{ {call} }}\n')
    done = subprocess.run(["nvcc", *hashes.NVCC_FLAGS, "-cubin", source, "-o", tmp_path / "calls.cubin"])
    assert (done.returncode == 0) == compiles


def test_a_primitive_of_one_target_only_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "more.cuh").write_text("namespace prim {\ntemplate <class T>\nPRIM_FN T more(T v) {\n}\n}\n")
    assert declared([*CUDA, tmp_path / "more.cuh"]) - declared(CUDA) == {"more"}


@pytest.mark.parametrize("flags", [[], ["-DSIMGPU_THREAD_FIBERS"]], ids=["warp-fibers", "thread-fibers"])
def test_every_primitive_keeps_its_promise_under_any_schedule(tmp_path: Path, flags: list[str]) -> None:
    engine = [str(unit) for unit in sorted((ROOT / "vendor/simgpu").glob("*.cpp"))]
    source = str(ROOT / "tests/cuda/simulate_primitives.cpp")
    build = ["g++", "-std=c++20", "-O1", "-march=x86-64-v3", *flags, source, *engine, "-o", str(tmp_path / "probe")]
    subprocess.run(build, check=True)
    done = subprocess.run([tmp_path / "probe"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
