"""Tables: the published cell format, one kind of figure per column, a dash for what is absent."""

import dataclasses
from pathlib import Path

import pytest

from harness.report import markdown, published
from harness.report.published import PublishedCell
from harness.studies.screen import report, tables
from harness.studies.screen.findings import Comparison, Findings, Pair
from harness.studies.screen.tables import Beside
from tests.harness.samples import TABLE, on_gpus, part, plan, records, results

GOLDEN = Path(__file__).parent / "golden"


def beside(*, rows=2, skip=(), tokens=(1, 8), with_published=True, **how) -> Beside:
    """Rows whose simulated figures are the published ones, a fixed part higher; some cells are left out."""
    own, table = plan(rows=rows, tokens=tokens, **how), published.load("result-main")
    comparisons = {}
    for index, row in enumerate(own.settings.rows):
        for one in tokens:
            other = table.cells[published.Point.of(row, one)]
            pair = Pair(other.baseline_us * 1.1, other.candidate_us * 1.2)
            if (index, one) not in skip:
                comparisons[index, one, 1] = Comparison((pair,))
    return Beside(Findings(part(own, []), (), comparisons, (), (), {}), 1, table if with_published else None)


def test_the_result_table_is_the_golden_one():
    assert tables.result_table(beside(skip={(1, 8)})) + "\n" == (GOLDEN / "result-table.md").read_text()


def test_the_fit_table_is_the_golden_one():
    assert tables.fit_table(beside(skip={(1, 1), (1, 8)})) + "\n" == (GOLDEN / "fit-table.md").read_text()


def test_a_cell_has_the_published_format():
    assert tables.figure(PublishedCell(31.7, 20.7, -34.6)) == "20.7 (31.7, \u221234.6%)"


def test_published_figures_print_as_they_were_printed():
    cells = published.load("result-main").cells
    printed = {tables.figure(cell) for cell in cells.values()}
    assert {"20.7 (31.7, \u221234.6%)", "367.8 (372.1, \u22121.1%)", "24.8 (36.4, \u221231.4%)"} <= printed


@pytest.mark.parametrize(("value", "text"), [(-34.56, "\u221234.6%"), (1.25, "+1.2%"), (0.04, "0.0%"), (-0.04, "0.0%")])
def test_a_change_has_its_sign_and_one_decimal(value, text):
    assert markdown.percent(value) == text


def test_fp8_rows_are_named_and_bf16_rows_are_not():
    assert TABLE[0].label == "2A2F, 2,048, random"
    assert dataclasses.replace(TABLE[0], dtype="fp8").label == "2A2F FP8, 2,048, random"


@pytest.mark.parametrize("column", ["simulated", "measured"])
def test_figures_stand_in_the_column_of_their_kind(column):
    how = {"backend": on_gpus()} if column == "measured" else {}
    header, _, first, *_ = tables.result_table(beside(**how)).splitlines()
    names, texts = ([cell.strip() for cell in line.split("|")] for line in (header, first))
    cells = dict(zip(names, texts, strict=True))
    own = {name: cells[f"{name}, us"] for name in ("simulated", "measured")}
    assert own.pop(column) == "24.8 (34.9, \u221228.8%)"
    assert list(own.values()) == [markdown.ABSENT]


def test_without_a_published_table_its_column_is_dashes():
    lines = tables.result_table(beside(with_published=False)).splitlines()[2:]
    assert all(line.split("|")[4].strip() == markdown.ABSENT for line in lines)


def test_a_row_without_shared_cells_has_dashes_and_never_a_figure():
    line = tables.fit_table(beside(rows=1, skip={(0, 1), (0, 8)})).splitlines()[-1]
    assert [cell.strip() for cell in line.split("|")[2:-1]] == [markdown.ABSENT] * 4 + ["0"]


def test_voids_are_listed_with_their_reason():
    own = plan()
    rows = records(own, end=lambda batch, trial: "missing" if trial.arm else "void")
    text = report.text(results(part(own, rows)))
    assert "- void: 2A2F, 2,048, random, m2n, pair 1, T = 1, 8: made void" in text
    assert "- missing: 2A2F, 2,048, random, afdep@bd4db4da, pair 1, T = 1, 8: not run" in text


def test_repeats_that_do_not_agree_with_their_mean_are_named():
    own = plan(rows=1, tokens=(8,), pairs=3)
    rows = records(own, lambda batch, trial: 30.0 if not trial.arm else (20.0, 20.0, 31.0)[trial.pair])
    text = report.text(results(part(own, rows)))
    said = "Repeats that agree with their mean, where not all do: 2A2F, 2,048, random, T = 8: 2 of 3."
    assert said in text


def test_padded_columns_line_up():
    lines = markdown.table(["a", "long header"], [["1", "x"], ["22222", "y"]], [0]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "| ----: | ----------- |"
