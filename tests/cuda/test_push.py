"""Rows that carry their own arrival come through any schedule, and reading or reusing them too early is caught."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sim.programs import ENGINE, ROOT, compiled, linked, ran

SEEDS = 200
SOURCES = ("tests/cuda/rows.cu", "tests/cuda/simulate_rows.cpp", "tests/sim/toy_machine.hpp")
ONE_WORD = ("vendor/simgpu/prim_rows.hpp", "k < 4; ++k)\n    if (v.word[k]", "k < 1; ++k)\n    if (v.word[k]")
POISON_SENT = ("vendor/simgpu/prim_rows.hpp", "word &= 0x7fffffffu", "word &= 0xffffffffu")
NOT_DONE = ("tests/cuda/rows.cu", "e.epoch < 2 ? 0 : e.epoch - 2", "0")
DONE_EARLY = ("tests/cuda/rows.cu", "(e.done), e.epoch - 1)", "(e.done), e.epoch)")

Edit = tuple[str, str, str]


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The simulator's own units: no plant changes them."""
    return compiled(ENGINE, tmp_path_factory.mktemp("engine"))


@pytest.fixture
def planted(tmp_path: Path, engine: list[Path]) -> Callable[[Edit], Path]:
    """Build the pair of kernels from a copy of the tree with one change."""

    def plant(edit: Edit) -> Path:
        shutil.copytree(ROOT / "vendor", tmp_path / "vendor", ignore=shutil.ignore_patterns("__pycache__"))
        for source in SOURCES:
            (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, tmp_path / source)
        name, old, new = edit
        text = (tmp_path / name).read_text("utf-8")
        assert text.count(old) == 1
        (tmp_path / name).write_text(text.replace(old, new), "utf-8")
        return linked([*engine, *compiled([tmp_path / SOURCES[1]], tmp_path)], tmp_path)

    return plant


@pytest.mark.parametrize("flags", [[], ["-DSIMGPU_THREAD_FIBERS"]], ids=["warp-fibers", "thread-fibers"])
def test_every_row_arrives_as_it_was_sent(tmp_path: Path, flags: list[str]) -> None:
    sources = [*ENGINE, ROOT / SOURCES[1]]
    program = linked(compiled(sources, tmp_path, *flags), tmp_path)
    for seeds in ((), (SEEDS,)):
        done = ran(program, *seeds)
        assert (done.returncode, done.stdout) == (0, "")


def test_testing_one_word_of_a_vector_shows_in_the_hunt_alone(planted: Callable[[Edit], Path]) -> None:
    program = planted(ONE_WORD)
    assert ran(program).returncode == 0, "in time order a warp's store lands as a whole"
    assert "vectors differ from what was sent" in ran(program, SEEDS).stdout


def test_the_poison_sent_as_payload_never_arrives(planted: Callable[[Edit], Path]) -> None:
    assert "still waiting for: a row, the inbox is poisoned" in ran(planted(POISON_SENT)).stdout


@pytest.mark.parametrize("edit", [NOT_DONE, DONE_EARLY], ids=["sender-does-not-wait", "receiver-says-done-early"])
def test_reuse_before_the_row_is_poisoned_again_is_caught(planted: Callable[[Edit], Path], edit: Edit) -> None:
    assert ran(planted(edit), SEEDS).returncode == 1
