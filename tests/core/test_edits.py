"""Edits of native sources: where they apply, which libraries they make, and that what is loaded is one of them."""

from types import SimpleNamespace

import pytest

from afdep import native_digest
from harness.core import trees
from harness.core.identity import Library
from harness.errors import TreeError
from harness.study import Batch, Edit, VoidError
from tests.core.conftest import ROOT

KERNELS = "afdep/csrc/kernels.hpp"
FIRST, SECOND, SHARED = (Edit(KERNELS, "", f"// {word}\n") for word in ("first", "second", "shared"))


def text_of(folder, *edits, shipped="one\ntwo\n"):
    """A file once it is edited."""
    (folder / "a.cuh").write_text(shipped)
    trees.edit(folder, edits)
    return (folder / "a.cuh").read_text()


def test_an_edit_takes_the_place_of_its_text_and_the_next_finds_what_it_left(tmp_path):
    assert text_of(tmp_path, Edit("a.cuh", "two", "three"), Edit("a.cuh", "three\n", "")) == "one\n"


def test_an_edit_without_a_text_is_put_at_the_end_of_its_file(tmp_path):
    assert text_of(tmp_path, Edit("a.cuh", "", "three\n")) == "one\ntwo\nthree\n"


def test_an_edit_without_a_text_makes_a_file_that_is_missing(tmp_path):
    trees.edit(tmp_path, (Edit("b.cuh", "", "new\n"),))
    assert (tmp_path / "b.cuh").read_text() == "new\n"


@pytest.mark.parametrize(("shipped", "times"), [("no such", 0), ("t", 2)])
def test_an_edit_whose_text_is_not_there_once_is_refused_and_changes_nothing(tmp_path, shipped, times):
    with pytest.raises(TreeError, match=f"once, received it {times} times"):
        text_of(tmp_path, Edit("a.cuh", "one", "three"), Edit("a.cuh", shipped, "x"))
    assert (tmp_path / "a.cuh").read_text() == "one\ntwo\n"


def test_an_edit_of_a_file_that_is_missing_is_refused(tmp_path):
    with pytest.raises(TreeError, match="received it 0 times"):
        trees.edit(tmp_path, (Edit("b.cuh", "text", "x"),))


@pytest.mark.parametrize(
    ("batch", "built"),
    [
        (Batch(()), ()),
        (Batch((), edits=(SHARED,)), ((SHARED,),)),
        (Batch((), libraries=((FIRST,), ())), ((FIRST,),)),
        (
            Batch((), edits=(SHARED,), libraries=((FIRST,), (), (SECOND,))),
            ((FIRST, SHARED), (SHARED,), (SECOND, SHARED)),
        ),
    ],
    ids=["none", "one", "beside the tree's own", "several"],
)
def test_a_batch_builds_one_library_for_each_set_of_edits_and_none_for_the_trees_own(batch, built):
    assert batch.built == built


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """A build that only notes the digest of the tree that it was asked for."""
    built = []

    def build(tree):
        built.append(str(native_digest("cuda", tree)))
        return tmp_path / "built.so"

    monkeypatch.setattr(trees.build, "build_cuda", build)
    return built


@pytest.fixture
def slot(tmp_path):
    return trees.copied(ROOT, tmp_path, ())


def test_a_library_of_edits_names_the_digest_of_the_edited_sources(no_compiler, slot, tmp_path):
    found = trees.library(slot, (FIRST,))
    assert found == Library(str(tmp_path / "built.so"), no_compiler[0])
    assert found.digest not in (str(native_digest("cuda")), trees.library(slot, (SECOND,)).digest)
    assert [path.name for path in tmp_path.iterdir()] == [slot.name]


def test_a_library_that_a_tree_carries_is_taken_and_not_built(no_compiler, slot):
    place = trees.carried(slot, (FIRST,))
    place.parent.mkdir(parents=True)
    place.write_bytes(b"library")
    carried = trees.library(slot, (FIRST,))
    place.unlink()
    assert (carried.path, no_compiler) == (str(place), [])
    assert trees.library(slot, (FIRST,)).digest == carried.digest
    assert trees.carried(slot, (SECOND,)) != place


BATCH = Batch((), "cuda", "1A1F", edits=(SHARED,), libraries=((FIRST,), ()))
BUILT = (Library("/first.so", "n1"), Library("/shared.so", "n2"))


@pytest.fixture
def opened(monkeypatch):
    """A rank's group whose Buffers report the digest that is said, and which says what it was asked to load."""
    device = pytest.importorskip("harness.ranks.device")
    plan = SimpleNamespace(trees=(SimpleNamespace(native_digest=lambda backend: "n0"),))
    group = device.DeviceGroup.__new__(device.DeviceGroup)
    group.session = SimpleNamespace(batch=BATCH, plan=plan, job=SimpleNamespace(libraries=BUILT))
    closed = []

    def buffer(digest, edits=None):
        made = SimpleNamespace(identity={"digest": digest}, close=lambda: closed.append(digest))
        monkeypatch.setattr(device.contract, "buffer", lambda path, **fields: vars(made).update(path=path) or made)
        return group.buffer(edits, layout="1A1F")

    buffer.closed = closed
    return buffer


@pytest.mark.requires("torch")
@pytest.mark.parametrize(
    ("edits", "path", "digest"),
    [
        ((FIRST, SHARED), "/first.so", "n1"),
        ((SHARED,), "/shared.so", "n2"),
        (None, "/shared.so", "n2"),
        ((), None, "n0"),
    ],
    ids=["one", "shared", "the batch's", "the tree's own"],
)
def test_a_rank_loads_the_library_of_the_edits_it_asks_for(opened, edits, path, digest):
    assert str(opened(digest, edits).path) == str(path)


@pytest.mark.requires("torch")
@pytest.mark.parametrize(("edits", "expected"), [((FIRST, SHARED), "n1"), ((), "n0")])
def test_a_library_that_reports_other_sources_is_void_and_closed(opened, edits, expected):
    with pytest.raises(VoidError, match=f"expected the library {expected}, received n9"):
        opened("n9", edits)
    assert opened.closed == ["n9"]
