"""The native digest of a target is of what its compiler reads, the code digest of what came out."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from afdep import build, compiled
from afdep.digest import CodeDigest, NativeDigest, native_digest
from afdep.errors import BuildError, DigestError
from afdep.sources import RECIPES, Target, logical, native_sources
from afdep.tree import root

PRIM = "vendor/elastic/prim.cuh"
by_target = pytest.mark.parametrize("target", ["sim", pytest.param("cuda", marks=pytest.mark.requires("nvcc"))])


def digests(tree: Path | None = None, edits: Any = None) -> dict[Target, str]:
    return {target: str(native_digest(target, tree, edits)) for target in RECIPES}


SHIPPED = digests()


def appended(path: str, text: str = "// more\n") -> dict[str, str]:
    return {path: (root() / path).read_text("utf-8") + text}


def changed(edits: dict[str, str]) -> list[str]:
    """The targets whose digest edits change."""
    return [target for target, digest in digests(edits=edits).items() if digest != SHIPPED[target]]


def read_by_compiler(target: Target, tree: Path) -> set[str]:
    """Our files that the compiler itself says it reads, by logical name."""
    recipe = RECIPES[target]
    flags = [flag for flag in recipe.flags if flag.startswith(("-std", "-march", "-gencode"))]
    found = set()
    for unit in recipe.units:
        command = ["g++" if target == "sim" else "nvcc", *flags, "-MM", '-DAFDEP_NATIVE_DIGEST="n0"', str(tree / unit)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        paths = [Path(word).resolve() for word in said.partition(":")[2].split() if word != "\\"]
        found |= {logical(path.relative_to(tree).as_posix()) for path in paths if path.is_relative_to(tree)}
    return found


def copied_tree(folder: Path) -> Path:
    for part in ("vendor", "afdep/csrc"):
        shutil.copytree(root() / part, folder / part)
    return folder


@by_target
def test_the_digest_is_of_exactly_the_files_that_the_compiler_reads(target: Target) -> None:
    assert set(native_sources(target)) == read_by_compiler(target, root())


@by_target
def test_a_file_that_is_read_without_being_digested_is_noticed(target: Target, tmp_path: Path) -> None:
    tree = copied_tree(tmp_path)
    (tree / "vendor/elastic/extra.cuh").write_text("")
    with (tree / PRIM).open("a") as header:
        header.write('#define EXTRA "extra.cuh"\n#include EXTRA\n')
    assert read_by_compiler(target, tree) - set(native_sources(target, tree)) == {"elastic/extra.cuh"}


def test_no_target_has_files_of_the_other_one() -> None:
    sim, cuda = set(native_sources("sim")), set(native_sources("cuda"))
    assert [name for name in cuda if name.startswith("simgpu/")] == []
    assert [name for name in sim if name.startswith("elastic/prim_cuda") or "cuda_" in name] == []
    assert {"elastic/prim.cuh", "elastic/dispatch.cuh", "csrc/directed.cuh"} <= sim & cuda


@pytest.mark.parametrize(
    ("path", "targets"),
    [
        (PRIM, ["sim", "cuda"]),
        ("afdep/csrc/directed.cuh", ["sim", "cuda"]),
        ("vendor/simgpu/nic.hpp", ["sim"]),
        ("afdep/csrc/sim_abi.cpp", ["sim"]),
        ("vendor/elastic/prim_cuda_rows.cuh", ["cuda"]),
        ("afdep/csrc/cuda_rank.cuh", ["cuda"]),
        ("vendor/PROVENANCE.md", []),
        ("vendor/HASHES", []),
        ("vendor/hashes.py", []),
        ("vendor/elastic/prim_nic.cuh", []),
        ("vendor/elastic/instances.cu", []),
        ("afdep/build.py", []),
    ],
)
def test_a_file_changes_the_digests_of_the_targets_that_read_it(path: str, targets: list[str]) -> None:
    assert changed(appended(path)) == targets


def test_a_new_header_for_the_simulator_changes_its_digest_alone() -> None:
    edits = {**appended("vendor/simgpu/engine.hpp", '#include "new.hpp"\n'), "vendor/simgpu/new.hpp": "// one\n"}
    assert changed(edits) == ["sim"]
    assert digests(edits=edits) != digests(edits={**edits, "vendor/simgpu/new.hpp": "// two\n"})


@pytest.mark.parametrize("by_name", [str, logical], ids=["path", "logical name"])
def test_edits_give_the_digest_of_a_tree_with_the_same_files(tmp_path: Path, by_name: Any) -> None:
    tree = copied_tree(tmp_path)
    (tree / PRIM).write_text("// other\n" + (tree / PRIM).read_text("utf-8"))
    edits = {by_name(PRIM): (tree / PRIM).read_text("utf-8")}
    assert digests(tree) == digests(edits=edits) != SHIPPED


def test_a_tree_elsewhere_has_the_same_digests(tmp_path: Path) -> None:
    assert digests(copied_tree(tmp_path)) == SHIPPED


@pytest.mark.parametrize("field", ["units", "flags", "optimisation"])
def test_another_recipe_is_another_digest(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = RECIPES["sim"]
    monkeypatch.setattr("afdep.sources.RECIPES", {**RECIPES, "sim": _replaced(recipe, field)})
    assert changed({}) == ["sim"]


def _replaced(recipe: Any, field: str) -> Any:
    return type(recipe)(
        **{**vars(recipe), field: tuple(reversed(getattr(recipe, field))) + ("-g",) * (field != "units")}
    )


CONDITIONS = {
    "ifdef": ("#ifdef __CUDACC__\n{cuda}#else\n{sim}#endif\n", True),
    "ifndef": ("#ifndef __CUDACC__\n{sim}#else\n{cuda}#endif\n", True),
    "nested": ("#ifdef __CUDACC__\n#if X > 1\n{cuda}#endif\n#else\n#ifdef X\n{sim}#endif\n#endif\n", True),
    "another condition": ("#ifdef X\n{cuda}#else\n{sim}#endif\n", False),
    "a condition with it": ("#if defined(__CUDACC__)\n{cuda}#else\n{sim}#endif\n", False),
}


@pytest.mark.parametrize(("text", "is_known"), CONDITIONS.values(), ids=CONDITIONS)
def test_an_include_counts_where_its_branch_may_be_taken(text: str, is_known: bool) -> None:
    includes = {"cuda": '# include "cuda.hpp"  // c\n', "sim": '\t#include "sim.hpp"\n'}
    edits = {"elastic/prim.cuh": text.format(**includes), "elastic/cuda.hpp": "", "elastic/sim.hpp": ""}
    for target, other in (("sim", "cuda"), ("cuda", "sim")):
        names = set(native_sources(target, edits=edits))  # type: ignore[arg-type]
        assert f"elastic/{target}.hpp" in names
        assert (f"elastic/{other}.hpp" in names) is not is_known


def test_a_missing_file_is_named_with_the_one_that_includes_it() -> None:
    expected = r"expected vendor/elastic/gone.cuh, which elastic/prim.cuh names"
    with pytest.raises(DigestError, match=expected):
        native_digest("sim", edits=appended(PRIM, '#include "gone.cuh"\n'))


def test_a_target_that_is_none_lists_those_that_are() -> None:
    with pytest.raises(DigestError, match=r"received 'cudda'\.\n.*did you mean cuda"):
        native_digest("cudda")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [NativeDigest, CodeDigest])
def test_digests_read_back_and_those_of_another_kind_are_refused(kind: Any) -> None:
    text = f"{kind.letter}0123456789abcdef"
    assert str(kind.parse(text)) == text
    for wrong in (f"x{text[1:]}", text[1:], 123, f"{kind.letter}12"):
        with pytest.raises(DigestError, match=f"{kind.kind} digest: expected {kind.letter} and 8 to 64"):
            kind.parse(wrong)


def test_no_digest_reads_as_a_number() -> None:
    assert all(re.fullmatch("n[0-9a-f]{16}", digest) for digest in SHIPPED.values())


def compiled_to(folder: Path, source: str, digest: str = "n" + 16 * "0") -> Path:
    folder.mkdir()
    (folder / "unit.cpp").write_text(source)
    command = ["g++", "-O2", "-shared", "-fPIC", f'-DDIGEST="{digest}"', str(folder / "unit.cpp")]
    subprocess.run([*command, "-o", str(folder / "unit.so")], check=True)
    return folder / "unit.so"


SOURCE = 'extern "C" const char* info() { return "{" DIGEST "}"; }\nextern "C" int twice(int x) { return 2 * x; }\n'


def test_a_comment_the_place_and_the_embedded_digest_leave_the_code_digest(tmp_path: Path) -> None:
    first = compiled_to(tmp_path / "a", SOURCE)
    second = compiled_to(tmp_path / "elsewhere", f"// a comment\n{SOURCE}", "n" + 16 * "f")
    assert first.read_bytes() != second.read_bytes()
    assert compiled.code_digest(first) == compiled.code_digest(second)


@pytest.mark.parametrize(("old", "new"), [("2 * x", "3 * x"), ('"{"', '"["')], ids=["instructions", "constants"])
def test_other_code_or_constants_are_another_code_digest(tmp_path: Path, old: str, new: str) -> None:
    first, second = compiled_to(tmp_path / "a", SOURCE), compiled_to(tmp_path / "b", SOURCE.replace(old, new))
    assert compiled.code_digest(first) != compiled.code_digest(second)


def test_a_code_digest_of_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no ELF file, and longer than the header of one would be, by some letters")
    for path in (tmp_path / "text.so", tmp_path / "gone.so"):
        with pytest.raises(BuildError, match=f"expected the ELF file {path.name}"):
            compiled.code_digest(path)


KERNEL = """
namespace { thread_local int last; __device__ int one() { return 1; } }
__global__ void add(int* x) { *x += one(); }
extern "C" int host(int x) { return last += x; }
"""


def built(tree: Path, source: str) -> CodeDigest:
    """The code digest of the library of a tree whose one unit is this source."""
    (tree / "afdep/csrc").mkdir(parents=True)
    (tree / "afdep/csrc/cuda_abi.cu").write_text(source)
    about = build.sidecar(build.build_cuda(tree, tree / "cache"))
    return CodeDigest.parse(about.code_digest)


@pytest.mark.requires("nvcc")
def test_a_kernels_instructions_are_in_the_code_digest_and_its_folder_is_not(tmp_path: Path) -> None:
    first = built(tmp_path / "a", KERNEL)
    assert built(tmp_path / "elsewhere", f"// more\n{KERNEL}") == first
    assert built(tmp_path / "c", KERNEL.replace("return 1;", "return 2;")) != first


@pytest.mark.requires("nvcc")
def test_compressed_kernels_are_refused(tmp_path: Path) -> None:
    (tmp_path / "unit.cu").write_text(KERNEL)
    flags = ["-gencode=arch=compute_90a,code=sm_90a", "-cudart", "none", "-shared", "-Xcompiler", "-fPIC"]
    command = ["nvcc", *flags, "--compress-mode=size", str(tmp_path / "unit.cu"), "-o", str(tmp_path / "unit.so")]
    subprocess.run(command, check=True)
    with pytest.raises(BuildError, match="expected kernels as plain ELF files"):
        compiled.code_digest(tmp_path / "unit.so")
