"""Trees are exported to neutral slots: what is measured, where it lies, and that nobody else is there."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import records, trees
from harness.errors import TreeError
from tests.harness.conftest import git, set_word

ROOT = Path(__file__).resolve().parents[2]
WORD = "vendor/elastic/word.h"
STARTER = """
import sys
from pathlib import Path
from harness import records, trees
from harness.leaving import leave
from tests.harness.samples import record
folder = trees.exclusive_directory(Path(sys.argv[1]) / "runs", "run")
(folder / "mine").write_text(sys.argv[2])
records.write(Path(sys.argv[1]) / "records", [record()])
leave(0)
"""


def exported(bench, *names):
    return trees.export(bench.root, [trees.resolve(bench.root, name) for name in names], bench.out("trees"))


def test_the_working_tree_is_exported_as_it_is_on_disk(bench):
    set_word(bench.root, "two")
    (bench.root / "afdep" / "new.py").write_text("")
    (bench.root / "afdep" / "arms.py").unlink()
    slot = exported(bench, "working").path(0)
    assert (slot / WORD).read_text() == "// two\n"
    assert (slot / "afdep" / "new.py").exists()
    assert not (slot / "afdep" / "arms.py").exists()


def test_ignored_files_are_not_exported(bench):
    (bench.root / ".gitignore").write_text("/out/\n*.so\n")
    (bench.root / "afdep" / "built.so").write_text("")
    assert not (exported(bench, "working").path(0) / "afdep" / "built.so").exists()


def test_a_revision_is_exported_as_it_was_committed(bench):
    set_word(bench.root, "two")
    slots = exported(bench, "HEAD", "working")
    assert [(slots.path(index) / WORD).read_text() for index in range(2)] == ["// one\n", "// two\n"]


def test_slots_have_paths_of_equal_length_that_name_no_tree(bench):
    slots = exported(bench, "HEAD", "working")
    paths = [str(slots.path(index)) for index in range(2)]
    assert len(set(map(len, paths))) == 1
    assert [Path(path).name for path in paths] == ["slot0", "slot1"]


def test_swapped_trees_are_where_the_other_was(bench):
    set_word(bench.root, "two")
    slots = exported(bench, "HEAD", "working")
    slots.swap()
    assert [(slots.path(index) / WORD).read_text() for index in range(2)] == ["// two\n", "// one\n"]
    assert sorted(path.name for path in slots.root.iterdir()) == ["slot0", "slot1"]


def test_every_slot_has_the_running_harness(bench):
    (bench.root / "harness").mkdir()
    (bench.root / "harness" / "worker.py").write_text("raise SystemExit\n")
    slots = exported(bench, "working")
    assert (slots.path(0) / "harness" / "worker.py").read_text() == (ROOT / "harness" / "worker.py").read_text()


@pytest.mark.parametrize("name", ["no-such-branch", "--help", "a=b", "x y", "HEAD:afdep"])
def test_an_unknown_revision_is_refused_in_two_lines(bench, name):
    with pytest.raises(TreeError, match="expected a git revision or working") as caught:
        trees.resolve(bench.root, name)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("name", ["feature/a=b,c", "it's", "x" * 200])
def test_a_revision_with_any_name_has_the_same_neutral_slot(bench, name):
    git(bench.root, "branch", name)
    slots = exported(bench, name)
    assert slots.path(0).relative_to(slots.root) == Path("slot0")
    assert name not in str(slots.root)


def test_eight_starts_at_once_have_eight_directories_and_eight_records(tmp_path):
    def start(index: int) -> int:
        return subprocess.run(
            [sys.executable, "-c", STARTER, str(tmp_path), str(index)], cwd=ROOT, check=False
        ).returncode

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(start, range(8))) == [0] * 8
    assert sorted(path.read_text() for path in (tmp_path / "runs").glob("*/mine")) == [str(index) for index in range(8)]
    assert len(records.read(records.record_files(tmp_path / "records")).records) == 8


def test_a_tree_that_does_not_build_is_named_with_the_problem_and_its_next_step(bench):
    error = 'BuildError("native build: expected a library, received: word.h:1: error: no.", "Needs g++.")'
    (bench.root / "afdep" / "world.py").write_text(f"from afdep.errors import BuildError\nraise {error}\n")
    with pytest.raises(TreeError) as caught:
        bench.screen()
    assert caught.value.problem.endswith("BuildError: native build: expected a library, received: word.h:1: error: no.")
    assert caught.value.next_step == "Needs g++."


def test_a_tree_that_does_not_load_is_named(bench):
    (bench.root / "afdep" / "world.py").write_text("raise ImportError('no such kernel')\n")
    with pytest.raises(TreeError, match=r"tree working: expected it to build and load, .* no such kernel"):
        bench.screen()
