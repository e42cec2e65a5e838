"""A tree of before the contract is measured by the harness of today, to the digits that are on record of it."""

import subprocess

import pytest

from harness.desk import run
from harness.ranks.exchanges import RoundTrip
from tests.studies.bench import ROOT, desk_at, rows_of

FIRST = "43cc6a8"
"""The last revision that keeps the first contract; records/screen/main-table are its figures."""
CELL = ("layout=2A2F", "hidden=2048", "tokens=[8]")
PAIR = ("arm=[m2n,afdep@bd4db4da]", "backend.pairs=2")


def measured(folder, *texts):
    out = f"launcher.out={folder}"
    assert run.run("screen", [*CELL, *texts, "screen.published=none", out], desk_at(ROOT, [])) == 0
    return rows_of(RoundTrip, folder)


def figures(rows):
    return {(row.arm, row.rank): (row.latency_us, row.samples_us) for row in rows}


@pytest.fixture(scope="module")
def revision():
    found = subprocess.run(["git", "-C", ROOT, "rev-parse", FIRST], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def test_an_older_tree_gives_the_figures_that_are_on_record_of_it(tmp_path, revision):
    rows = measured(tmp_path, f"trees.baseline={FIRST}", f"trees.candidate={FIRST}", *PAIR)
    archived = [
        row
        for row in rows_of(RoundTrip, ROOT / "records" / "screen" / "main-table")
        if (row.layout, row.hidden, row.tokens, row.routing, row.dtype) == ("2A2F", 2048, 8, "random", "bf16")
    ]
    assert {row.native_digest for row in (*rows, *archived)} == {"n6b75a0c773e68993"}
    assert {row.tree for row in rows} == {revision}
    expected = figures(row for row in archived if row.seed == rows[0].seed)
    assert len(expected) == 8
    assert figures(rows) == expected


def test_an_older_tree_and_this_one_stand_in_one_screen(tmp_path, revision):
    rows = measured(tmp_path, "arm=[m2n]", f"trees.baseline={FIRST}", "backend.pairs=2")
    by_tree = {(row.tree, row.native_digest) for row in rows}
    assert (revision, "n6b75a0c773e68993") in by_tree
    assert len(by_tree) == 2
    assert {row.status for row in rows} == {"ok"}
