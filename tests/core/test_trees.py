"""A slot holds the bytes of a tree's blobs and nothing else, whatever git or the surroundings make of them."""

import os
import subprocess
from pathlib import Path

import pytest

from harness.core import trees
from harness.core.trees import Slots
from harness.errors import TreeError
from harness.study import Edit


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit of a few files."""
    root = tmp_path / "repository"
    files = {"afdep/one.py": "1\n", "vendor/two.hpp": "2\n", "conf/three.yaml": "3: 3\n", "docs/no.md": ""}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


def exported(repository: Path, name: str, tmp_path: Path) -> dict[str, bytes]:
    """Files of the slot of a tree, those apart that are laid over it."""
    slots = trees.export(repository, [trees.resolve(repository, name)], tmp_path / "trees")
    slot = slots.path(0)
    laid = [slot / part for part in trees.LAID_OVER]
    own = (path for path in slot.rglob("*") if path.is_file() and not any(map(path.is_relative_to, laid)))
    return {path.relative_to(slot).as_posix(): path.read_bytes() for path in own}


@pytest.mark.parametrize("name", ["working", "HEAD"])
def test_a_slot_holds_what_is_measured_and_the_running_harness(repository, tmp_path, name):
    found = exported(repository, name, tmp_path)
    assert found == {"afdep/one.py": b"1\n", "vendor/two.hpp": b"2\n", "conf/three.yaml": b"3: 3\n"}
    (slot,) = (tmp_path / "trees").glob("*/slot0")
    assert (slot / "harness" / "core" / "worker.py").is_file()
    assert (slot / "conf" / "machine" / "h200-nvlink.yaml").is_file()


def test_the_working_tree_is_as_it_is_on_disk(repository, tmp_path):
    (repository / "afdep" / "one.py").write_text("changed\n")
    (repository / "afdep" / "new.py").write_text("new\n")
    found = exported(repository, "working", tmp_path)
    assert (found["afdep/one.py"], found["afdep/new.py"]) == (b"changed\n", b"new\n")
    assert exported(repository, "HEAD", tmp_path / "b")["afdep/one.py"] == b"1\n"


@pytest.mark.parametrize(
    "attributes", ["export-ignore", "text eol=crlf", "export-subst", "working-tree-encoding=UTF-16"]
)
def test_attributes_change_no_byte_of_a_revision(repository, tmp_path, attributes):
    (repository / ".gitattributes").write_text(f"*.py {attributes}\n")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "-qm", "attributes")
    assert exported(repository, "HEAD", tmp_path)["afdep/one.py"] == b"1\n"


def test_neither_variables_nor_configuration_of_the_user_lead_to_another_tree(repository, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.autocrlf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    assert exported(repository, "HEAD", tmp_path)["afdep/one.py"] == b"1\n"


def test_compiled_files_do_not_travel(repository, tmp_path):
    (repository / "afdep" / "__pycache__").mkdir()
    (repository / "afdep" / "__pycache__" / "one.cpython-311.pyc").write_bytes(b"x")
    (repository / "afdep" / "one.so").write_bytes(b"x")
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-qm", "compiled")
    for name in ("working", "HEAD"):
        assert not [path for path in exported(repository, name, tmp_path / name) if path.endswith((".pyc", ".so"))]


@pytest.mark.parametrize("name", ["working", "HEAD"])
def test_a_link_that_leads_nowhere_is_refused(repository, tmp_path, name):
    (repository / "afdep" / "link.py").symlink_to("nowhere.py")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "link")
    with pytest.raises(TreeError, match=r"link\.py"):
        exported(repository, name, tmp_path)


def test_a_nested_repository_is_refused(repository, tmp_path):
    nested = repository / "vendor" / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "a.hpp").write_text("a")
    with pytest.raises(TreeError, match="a repository: vendor/nested"):
        exported(repository, "working", tmp_path)


def test_a_refused_tree_leaves_no_slots(repository, tmp_path):
    (repository / "afdep" / "link.py").symlink_to("nowhere.py")
    with pytest.raises(TreeError):
        exported(repository, "working", tmp_path)
    assert list((tmp_path / "trees").iterdir()) == []


@pytest.mark.parametrize("name", ["nothere", "--help", "HEAD^{tree}"])
def test_what_is_no_revision_is_refused_with_where_to_look(repository, name):
    with pytest.raises(TreeError) as error:
        trees.resolve(repository, name)
    assert repr(name) in error.value.problem
    assert "git log" in error.value.next_step


def test_two_trees_change_places(tmp_path):
    slots = Slots(tmp_path, 2)
    for index in range(2):
        slots.path(index).mkdir()
        (slots.path(index) / "name").write_text(f"tree {index}")
    assert (slots.of(0, swapped=False), slots.of(0, swapped=True)) == (slots.path(0), slots.path(1))
    slots.swap()
    assert [(slots.of(tree, swapped=True) / "name").read_text() for tree in range(2)] == ["tree 0", "tree 1"]


def test_slots_have_names_of_one_length_that_say_nothing(repository, tmp_path):
    first, second = (trees.export(repository, ["working"], tmp_path / "trees") for _ in range(2))
    assert first.root != second.root
    assert len(str(first.path(0))) == len(str(second.path(0)))
    assert os.path.basename(first.path(0)) == "slot0"  # noqa: PTH119


def test_edits_find_their_place_once(tmp_path):
    (tmp_path / "a.hpp").write_text("one two two")
    trees.edit(tmp_path, [Edit("a.hpp", "one", "1"), Edit("a.hpp", "1 two", "1 zwei")])
    assert (tmp_path / "a.hpp").read_text() == "1 zwei two"
    with pytest.raises(TreeError, match="expected 'nothing' once, received it 0 times"):
        trees.edit(tmp_path, [Edit("a.hpp", "nothing", "")])
    with pytest.raises(TreeError, match="received it 2 times"):
        trees.edit(tmp_path, [Edit("a.hpp", "w", "")])
