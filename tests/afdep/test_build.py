"""Builds into a cache: what is kept is whole, is what its digest says, and owes nothing to the environment."""

import multiprocessing
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from afdep import build, libraries
from afdep.digest import native_digest
from afdep.errors import BuildError
from afdep.tree import root

PROCESSES, ROUNDS = 8, 20
FAKE = """#!/bin/sh
if [ "$1" = --version ]; then echo fake 1.0; exit 0; fi
while [ "$1" != -o ]; do shift; done
{first}
head -c 2000 "{whole}" > "$2"
{halfway}
tail -c +2001 "{whole}" >> "$2"
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that fake compilers copy."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "whole.c").write_text("int answer(void) { return 42; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", str(folder / "whole.c"), "-o", str(folder / "whole.so")], check=True)
    return folder / "whole.so"


class Fake:
    """Stands in for both compilers: `g++` by CXX, `nvcc` on the path."""

    def __init__(self, folder: Path, whole: Path, monkeypatch: pytest.MonkeyPatch):
        self.path, self.whole = folder / "bin" / "nvcc", whole
        self.path.parent.mkdir()
        self.does()
        monkeypatch.setenv("CXX", str(self.path))
        monkeypatch.setenv("PATH", f"{self.path.parent}:{os.environ['PATH']}")

    def does(self, first: str = "", halfway: str = "") -> None:
        self.path.write_text(FAKE.format(whole=self.whole, first=first, halfway=halfway))
        self.path.chmod(0o755)


@pytest.fixture
def fake(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(tmp_path, whole, monkeypatch)


def copied_tree(folder: Path) -> Path:
    for part in ("vendor", "afdep/csrc"):
        shutil.copytree(root() / part, folder / part)
    return folder


def files_under(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def _build_and_read(caches: list[Path], whole: bytes, barrier: Any, faults: Any) -> None:
    for cache in caches:
        barrier.wait(10)
        try:
            if build.build(folder=cache).read_bytes() != whole:
                faults.put("half a library")
        except Exception as error:
            faults.put(f"{type(error).__name__}: {error}")
    os._exit(0)


def _together(caches: list[Path], whole: Path) -> list[str]:
    """What went wrong in processes that build into each cache at the same time."""
    context = multiprocessing.get_context("fork")
    barrier, faults = context.Barrier(PROCESSES), context.SimpleQueue()
    arguments = (caches, whole.read_bytes(), barrier, faults)
    processes = [context.Process(target=_build_and_read, args=arguments) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [faults.get() for _ in iter(lambda: not faults.empty(), False)]


def test_processes_that_build_at_once_all_find_one_whole_library(fake: Fake, tmp_path: Path) -> None:
    fake.does(halfway="sleep 0.05")
    caches = [tmp_path / f"cache{number}" for number in range(ROUNDS)]
    assert _together(caches, fake.whole) == []
    for cache in caches:
        assert files_under(cache) == ["LIBRARY.json", "libafdep_sim_warp.so"]


def test_a_build_in_place_is_caught_leaving_halves(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def in_place(library: Path) -> Iterator[Path]:
        library.parent.mkdir(parents=True, exist_ok=True)
        yield library

    fake.does(halfway="sleep 0.05")
    monkeypatch.setattr(libraries, "publishing", in_place)
    monkeypatch.setattr(libraries, "found", lambda library: library.exists())
    monkeypatch.setattr(build, "_about", lambda *_: None)
    monkeypatch.setattr(libraries, "write", lambda *_: None)
    assert "half a library" in _together([tmp_path / f"cache{number}" for number in range(3)], fake.whole)


def test_a_cache_that_has_the_library_is_not_built_again(fake: Fake, tmp_path: Path) -> None:
    first = build.build(folder=tmp_path / "cache")
    made = first.stat().st_mtime_ns
    assert build.build(folder=tmp_path / "cache").stat().st_mtime_ns == made


def truncate(library: Path) -> None:
    library.write_bytes(library.read_bytes()[:2000])


def turn_a_bit(library: Path) -> None:
    content = bytearray(library.read_bytes())
    content[1000] ^= 1
    library.write_bytes(content)


DAMAGE = {
    "truncated": truncate,
    "a bit turned": turn_a_bit,
    "gone": Path.unlink,
    "no sidecar": lambda library: library.with_name("LIBRARY.json").unlink(),
    "half a sidecar": lambda library: library.with_name("LIBRARY.json").write_text('{"sha256": '),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_library_is_built_again_once_with_a_warning(
    fake: Fake, tmp_path: Path, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    library = build.build(folder=tmp_path / "cache")
    damage(library)
    libraries._whole.clear()  # as in another process
    assert build.build(folder=tmp_path / "cache") == library
    assert library.read_bytes() == fake.whole.read_bytes()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "It is built again." in caplog.text
    build.build(folder=tmp_path / "cache")
    assert len(caplog.records) == 1
    assert files_under(tmp_path / "cache") == ["LIBRARY.json", "libafdep_sim_warp.so"]


def test_a_library_that_stays_damaged_is_refused(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "sha256_of", lambda library: os.urandom(8).hex())
    with pytest.raises(BuildError, match=r"expected libafdep_sim_warp\.so of sha256"):
        build.build(folder=tmp_path / "cache")


@pytest.mark.parametrize("of", [build.build, build.build_cuda], ids=["sim", "cuda"])
def test_a_source_saved_while_it_compiles_leaves_nothing_in_the_cache(fake: Fake, tmp_path: Path, of: Any) -> None:
    tree = copied_tree(tmp_path / "tree")
    fake.does(halfway=f"echo '// saved' >> {tree / 'vendor/elastic/prim.cuh'}")
    with pytest.raises(BuildError, match=r"expected n\w+ until they were compiled, received n"):
        of(tree=tree, folder=tmp_path / "cache")
    assert files_under(tmp_path / "cache") == []


def test_a_file_that_is_not_compiled_may_be_saved_meanwhile(fake: Fake, tmp_path: Path) -> None:
    tree = copied_tree(tmp_path / "tree")
    fake.does(halfway=f"echo saved >> {tree / 'vendor/PROVENANCE.md'}")
    assert build.build(tree=tree, folder=tmp_path / "cache").exists()


@pytest.mark.parametrize("name", build.STEERING)
def test_a_compiler_sees_no_variable_that_steers_it(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain = build.build_cuda(folder=tmp_path / "cache")
    monkeypatch.setenv(name, "g++")
    monkeypatch.setenv("KEPT", "1")
    fake.does(first=f"env > {tmp_path / 'seen'}")
    assert build.build_cuda(folder=tmp_path / "other").relative_to(tmp_path / "other") == plain.relative_to(
        tmp_path / "cache"
    )
    seen = [line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()]
    assert name not in seen
    assert "KEPT" in seen


WRONG = "#ifdef WRONG\n#error a flag of the environment\n#endif\n"


@pytest.mark.requires("nvcc")
def test_flags_that_nvcc_would_append_by_itself_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "afdep/csrc").mkdir(parents=True)
    (tmp_path / "afdep/csrc/cuda_abi.cu").write_text(f"{WRONG}__global__ void nothing() {{}}\n")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DWRONG")
    library = build.build_cuda(tree=tmp_path, folder=tmp_path / "cache")
    assert build.sidecar(library).code_digest.startswith("c")
    command = ["nvcc", "-c", "-o", os.devnull, str(tmp_path / "afdep/csrc/cuda_abi.cu")]
    assert "a flag of the environment" in subprocess.run(command, capture_output=True, text=True).stderr


def test_headers_that_the_environment_names_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for unit in build.RECIPES["sim"].units:
        (tmp_path / unit).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / unit).write_text("#include <cstddef>\n")
    (tmp_path / "cstddef").write_text("#error a header of the environment\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    assert build.build(tree=tmp_path, folder=tmp_path / "cache").exists()
    command = ["g++", "-c", "-o", os.devnull, str(tmp_path / build.RECIPES["sim"].units[0])]
    assert "a header of the environment" in subprocess.run(command, capture_output=True, text=True).stderr


def test_a_sidecar_says_what_was_built(fake: Fake, tmp_path: Path) -> None:
    about = build.sidecar(build.build("thread", folder=tmp_path / "cache"))
    assert about.sha256 == libraries.sha256_of(fake.whole)
    assert about.native_digest == str(native_digest("sim"))
    assert (about.target, about.fiber, about.compiler) == ("sim", "thread", "fake 1.0")
    assert about.flags[-2:] == ("-O3", "-DSIMGPU_THREAD_FIBERS")


def test_a_compiler_of_another_version_has_a_library_of_its_own(fake: Fake, tmp_path: Path) -> None:
    first = build.build(folder=tmp_path / "cache")
    build._version.cache_clear()
    fake.path.write_text(fake.path.read_text().replace("fake 1.0", "fake 2.0"))
    assert build.build(folder=tmp_path / "cache") != first
    build._version.cache_clear()


def test_a_carried_library_needs_no_compiler(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = copied_tree(tmp_path / "tree")
    carried = build.carry(tree, tmp_path / "cache")
    monkeypatch.setenv("PATH", "")
    assert build.build_cuda(tree, tmp_path / "empty") == carried == build.carried(tree)
    assert build.sidecar(carried).target == "cuda"


def test_a_damaged_carried_library_is_not_loaded(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tree = copied_tree(tmp_path / "tree")
    truncate(build.carry(tree, tmp_path / "cache"))
    assert build.build_cuda(tree, tmp_path / "other").is_relative_to(tmp_path / "other")
    assert "expected libafdep_cuda.so of sha256" in caplog.text
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BuildError, match="expected nvcc on the PATH"):
        build.build_cuda(tree, tmp_path / "empty")
