"""Cold builds of many processes into one cache: all succeed, one artefact is left, and nobody finds half of it."""

import multiprocessing
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from afdep import build

PROCESSES, ROUNDS = 8, 20
SLOW_COPY = """#!/bin/sh
if [ "$1" = --version ]; then echo fake 1; exit 0; fi
while [ "$1" != -o ]; do shift; done
head -c 2000 "{whole}" > "$2"
sleep 0.05
tail -c +2001 "{whole}" >> "$2"
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for g++: it writes a whole library in two halves, slowly. Returns that library."""
    whole, fake = tmp_path / "whole.so", tmp_path / "slow-copy"
    (tmp_path / "whole.c").write_text("int answer(void) { return 42; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", str(tmp_path / "whole.c"), "-o", str(whole)], check=True)
    fake.write_text(SLOW_COPY.format(whole=whole))
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    return whole


def _build_and_read(caches: list[Path], whole: bytes, barrier: Any, faults: Any) -> None:
    for cache in caches:
        barrier.wait(10)
        try:
            if build.build(folder=cache).read_bytes() != whole:
                faults.put("half a library")
        except Exception as error:
            faults.put(f"{type(error).__name__}: {error}")
    os._exit(0)


def _together(caches: list[Path], compiler: Path) -> list[str]:
    """What went wrong in processes that build into each cache at the same time."""
    context = multiprocessing.get_context("fork")
    barrier, faults = context.Barrier(PROCESSES), context.SimpleQueue()
    processes = [
        context.Process(target=_build_and_read, args=(caches, compiler.read_bytes(), barrier, faults))
        for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [faults.get() for _ in iter(lambda: not faults.empty(), False)]


def test_processes_that_build_at_once_all_find_one_whole_library(compiler: Path, tmp_path: Path) -> None:
    caches = [tmp_path / f"cache{number}" for number in range(ROUNDS)]
    assert _together(caches, compiler) == []
    for cache in caches:
        left = [path for path in cache.rglob("*") if path.is_file()]
        assert [path.read_bytes() for path in left] == [compiler.read_bytes()]


def test_a_build_in_place_is_caught_leaving_halves(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_in_place(command: list[str], units: Any, tree: Path, library: Path) -> None:
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([*command, "-o", str(library)], check=True)

    monkeypatch.setattr(build, "_compile", compile_in_place)
    assert "half a library" in _together([tmp_path / f"cache{number}" for number in range(3)], compiler)


def test_a_cache_that_has_the_library_is_not_built_again(compiler: Path, tmp_path: Path) -> None:
    first = build.build(folder=tmp_path / "cache")
    made = first.stat().st_mtime_ns
    assert build.build(folder=tmp_path / "cache").stat().st_mtime_ns == made
