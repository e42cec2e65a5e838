"""Archived records name digests of a rule that is gone; records/digests.csv says which sources and code these were."""

import csv
import subprocess
from pathlib import Path
from typing import Any

import pytest

from afdep import build
from afdep.digest import CodeDigest, NativeDigest, native_digest
from harness.records import read, record_files
from harness.studies.screen.settings import EXTERNAL

FILE = Path(__file__).parents[2] / "records" / "digests.csv"
ROWS: list[Any] = list(csv.DictReader(FILE.read_text("utf-8").splitlines()))
NATIVE = ("vendor/elastic", "vendor/simgpu", "afdep/csrc")
by_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['old_digest']}-{row['target']}")


def sources_at(root: Path, revision: str) -> dict[str, str]:
    """The native files of a revision, by path."""
    git = ["git", "-C", str(root)]
    listing = subprocess.run([*git, "ls-tree", "-r", "--name-only", revision, *NATIVE], capture_output=True, text=True)
    if listing.returncode:
        pytest.skip(f"this clone has no revision {revision}")
    names = listing.stdout.split()
    return {
        name: subprocess.run([*git, "show", f"{revision}:{name}"], capture_output=True, text=True, check=True).stdout
        for name in names
    }


def test_every_archived_digest_has_one_row_a_target() -> None:
    keys = [(row["old_digest"], row["target"]) for row in ROWS]
    assert len(set(keys)) == len(keys)
    assert {target for _, target in keys} == {"sim", "cuda"}
    for row in ROWS:
        NativeDigest.parse(row["old_digest"])
        NativeDigest.parse(row["native_digest"])
        CodeDigest.parse(row["code_digest"])


@by_row
def test_a_row_names_the_sources_of_its_revision(row: Any, root: Path) -> None:
    edits = sources_at(root, row["revision"])
    assert str(native_digest(row["target"], edits=edits)) == row["native_digest"]
    changed = {**edits, "vendor/elastic/prim.cuh": edits["vendor/elastic/prim.cuh"] + "\n"}
    assert str(native_digest(row["target"], edits=changed)) != row["native_digest"]


@by_row
@pytest.mark.requires("nvcc")
def test_a_row_names_the_code_that_this_tree_is_compiled_to(row: Any) -> None:
    """While the tree's sources are those of the row, and the compilers those of its note."""
    if str(native_digest(row["target"])) != row["native_digest"]:
        pytest.skip("the native sources have changed since")
    about = build.sidecar({"sim": build.build, "cuda": build.build_cuda}[row["target"]]())
    if not all(version in about.compiler for version in ("13.0.88", "12.2.0") if version in row["note"]):
        pytest.skip(f"compiled by {about.compiler}")
    assert about.code_digest == row["code_digest"]


def test_the_figures_of_the_archive_lead_to_native_sources(root: Path) -> None:
    kept = read(record_files(root / "records" / "screen" / "h200")).rows
    loaded = {row["loaded_digest"] for row in kept if row["arm"] not in EXTERNAL}
    assert loaded <= {row["old_digest"] for row in ROWS if row["target"] == "cuda"}
    assert loaded
