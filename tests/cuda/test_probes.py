"""The calibration's probes compile without a warning or a spill, and say where there is no GPU."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from afdep.errors import BuildError
from harness.desk import node
from harness.studies.calibrate import program
from harness.studies.calibrate.rules import RULE_OF, Place
from harness.study import VoidError
from tests.cuda.kernels import ROOT
from vendor import hashes

pytestmark = pytest.mark.requires("nvcc")

KERNEL = re.compile(
    r"entry function '(\S+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers", re.S
)
ROWS_IN_FLIGHT = 8
"""16-byte vectors that one lane of load_columns has in flight, four registers each."""
LOOP_WITHOUT_END = re.compile(r"while \((?:true|1)\)|for \(;;\)|\bdo \{")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, int]]:
    """Spilled bytes and registers of each kernel, by its mangled name."""
    log = hashes.compile_cubin(ROOT / program.SOURCES / "probes.cu", tmp_path_factory.mktemp("probes") / "probes.cubin")
    return {name: (int(stores) + int(loads), int(used)) for name, stores, loads, used in KERNEL.findall(log)}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A tree with the sources of the probes alone."""
    shutil.copytree(ROOT / program.SOURCES, tmp_path / "tree" / program.SOURCES)
    return tmp_path / "tree"


def changed(tree: Path, old: str, new: str) -> None:
    source = tree / program.SOURCES / "probes.cu"
    text = source.read_text("utf-8")
    assert old in text
    source.write_text(text.replace(old, new), "utf-8")


def sources() -> str:
    return "".join(path.read_text("utf-8") for path in sorted((ROOT / program.SOURCES).iterdir()))


@pytest.fixture(scope="module")
def faked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program beside a runtime without a GPU; what its host side does wrong with memory ends it."""
    folder = tmp_path_factory.mktemp("faked")
    flags = [flag for flag in program.FLAGS if flag != "static"]
    flags[flags.index("-cudart")] = "-cudart=shared"
    subprocess.run(
        ["nvcc", *flags, "-c", ROOT / program.SOURCES / "probes.cu", "-o", "probes.o"], cwd=folder, check=True
    )
    parts = [ROOT / "tests/cuda/fake_runtime.cpp", "probes.o", "-fsanitize=address,undefined", "-o", "probes"]
    subprocess.run(["g++", "-std=c++20", "-O1", *parts], cwd=folder, check=True)
    return folder / "probes"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with the sources of the probes, and what was built of them."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT / program.SOURCES, folder / program.SOURCES)
    program.build(folder)
    return folder


@pytest.fixture
def built(tree: Path) -> Path:
    return program.build(tree)


def test_every_kernel_of_the_probes_is_seen_and_none_spills(kernels: dict[str, tuple[int, int]]) -> None:
    names = set(re.findall(r"__global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\(", sources()))
    assert len(names) > 15
    assert {name for name in names if not any(f"{len(name)}{name}" in kernel for kernel in kernels)} == set()
    assert {kernel: spilled for kernel, (spilled, _) in kernels.items() if spilled} == {}


PRINTING = """#include "probing.cuh"
int main() {
  probes::emit({"flag", "relaxed"}, "ns", {720, 721.5, 1e9});
  probes::emit({"push", "bulk", 24, 4096}, "GB/s", {});
  probes::attempt("word", [] { throw std::runtime_error("a \\"word\\" that\\n did not come"); });
}
"""


def test_what_the_probes_print_is_read(tmp_path: Path) -> None:
    (tmp_path / "printing.cu").write_text(PRINTING)
    command = ["nvcc", *program.FLAGS, f"-I{ROOT / program.SOURCES}", "printing.cu", "-o", "printing"]
    subprocess.run(command, cwd=tmp_path, check=True)
    flag, push, word = program.probe(tmp_path / "printing", "core")
    assert (flag["samples"], flag["variant"], flag["unit"]) == ([720.0, 721.5, 1e9], "relaxed", "ns")
    assert (push["samples"], push["ctas"], push["bytes"]) == ([], 24, 4096)
    assert word == {"probe": "word", "void": "a  word  that  did not come"}


def test_every_reading_that_a_rule_needs_is_printed_and_no_host_side_fails(faked: Path) -> None:
    printed = [one for group in program.GROUPS for one in program.probe(faked, group) if "probe" in one]
    assert [one for one in printed if "void" in one] == []
    places = {Place(one["probe"], one["variant"], one["ctas"], one["bytes"]) for one in printed}
    assert {place for rule in RULE_OF.values() for place in rule.places} - places == set()


def test_one_gpu_leaves_the_link_void(faked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPUS", "1")
    machine, local, link = program.probe(faked, "link")
    assert set(machine) == set(program.MACHINE)
    assert (local["probe"], link["probe"]) == ("flag_local", "link")
    assert link["void"] == "this machine shows one GPU, and a link needs two"


def test_no_gpu_and_no_such_group_have_statuses_of_their_own(faked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program.probe(faked, "flags")[-1]["void"].startswith("ended with status 4")
    monkeypatch.setenv("FAKE_GPUS", "0")
    with pytest.raises(VoidError, match="expected a GPU, received no GPU"):
        program.probe(faked, "core")
    assert subprocess.run([faked, "core"], capture_output=True, check=False).returncode == program.NO_GPU


def test_all_rows_of_a_load_are_in_flight_together(kernels: dict[str, tuple[int, int]]) -> None:
    registers = [used for kernel, (_, used) in kernels.items() if "load_columns" in kernel]
    assert len(registers) == 2
    assert min(registers) > 4 * ROWS_IN_FLIGHT


def test_no_loop_of_a_probe_is_without_an_end() -> None:
    texts = {path.name: path.read_text("utf-8") for path in (ROOT / program.SOURCES).iterdir()}
    assert {name for name, text in texts.items() if LOOP_WITHOUT_END.search(text)} == set()


@pytest.mark.parametrize("loop", ["while (true) {}", "for (;;) {}", "do {} while (x != 1);"])
def test_a_loop_without_an_end_is_noticed(loop: str) -> None:
    assert LOOP_WITHOUT_END.search(loop)


def test_the_program_needs_no_other_library(built: Path) -> None:
    node.check_self_contained(built)


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_the_program_says_that_there_is_no_gpu(built: Path) -> None:
    done = subprocess.run([built, "core"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("no GPU: ")


def test_a_program_is_built_once(tree: Path, built: Path) -> None:
    before = built.stat().st_mtime_ns
    assert program.carry(tree) == built
    assert built.stat().st_mtime_ns == before


def test_a_tree_that_carries_its_program_needs_no_compiler(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried = copied / "native" / program.probes_hash(copied) / "probes"
    carried.parent.mkdir(parents=True)
    carried.write_bytes(b"built elsewhere")
    monkeypatch.setenv("PATH", str(copied))
    assert program.build(copied) == carried
    changed(copied, "no GPU", "none")
    with pytest.raises(BuildError, match="expected nvcc on the PATH"):
        program.build(copied)


def test_a_bundle_carries_the_program_of_its_tree(tree: Path, built: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "slot")
    carried = program.carry(tmp_path / "slot")
    assert carried.is_relative_to(tmp_path / "slot")
    assert carried.read_bytes() == built.read_bytes()
    assert subprocess.run([carried, "core"], capture_output=True, timeout=60).returncode in (0, 3)


def test_a_warning_of_the_compiler_is_an_error(copied: Path) -> None:
    changed(copied, "int main(", "static int unused() { return 0; }\nint main(")
    with pytest.raises(BuildError, match=r"expected to compile, received: .*unused"):
        program.build(copied)
    assert list((copied / "native").rglob("probes*")) == []
