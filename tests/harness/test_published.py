"""Published figures come from their file, whole tables only, and stand beside the arm they measured."""

import csv

import pytest

from harness.errors import PublishedError
from harness.report import published
from harness.report.published import Point


def test_the_main_table_has_both_arms_and_the_change_of_every_cell():
    table = published.load("result-main")
    assert len(table.cells) == 36
    cell = table.cells[Point("2A2F", 2048, "bf16", "random", 1)]
    assert (cell.candidate_us, cell.baseline_us, cell.change_pct) == (20.7, 31.7, -34.6)
    assert (table.nodes_gpus, table.native_digest, table.repeats) == ("4xH100", "bd4db4da", 3)


@pytest.mark.parametrize(
    ("baseline", "candidate", "stands"),
    [("m2n", "afdep@bd4db4da", True), ("m2n", "afdep", False), ("afdep", "afdep@bd4db4da", False)],
)
def test_only_the_arm_frozen_at_its_digest_stands_beside_a_table(baseline, candidate, stands):
    assert published.load("result-main").stands_beside(baseline, candidate) is stands


def test_an_unknown_table_lists_the_known_ones():
    with pytest.raises(PublishedError, match="did you mean result-main"):
        published.load("result-mian")


def test_a_table_without_a_figure_is_refused(tmp_path):
    path = tmp_path / "tables.csv"
    with published.TABLES.open() as source, path.open("w", newline="") as target:
        rows = [row for row in csv.DictReader(source) if row["table_id"] == "result-main"]
        writer = csv.DictWriter(target, rows[0])
        writer.writeheader()
        writer.writerows(rows[1:])
    with pytest.raises(PublishedError, match=r"2A2F 2048 bf16 random 1: expected afdep.latency_us, received none"):
        published.load("result-main", path)


def test_a_missing_file_is_an_error_of_two_lines(tmp_path):
    with pytest.raises(PublishedError, match="expected under") as caught:
        published.load("result-main", tmp_path / "tables.csv")
    assert len(str(caught.value).splitlines()) == 2
