"""Tables: the published cell format, one kind of figure per column, a dash for what is absent."""

import dataclasses
from pathlib import Path

import pytest

from harness import published, tables
from harness.comparison import Comparison, Findings, findings
from harness.screen_config import Row
from harness.published import PublishedCell
from harness.statistics import Pair
from harness.tables import Beside
from tests.harness.samples import plan, record

GOLDEN = Path(__file__).parent / "golden"
ROW = Row("2A2F", 2048, "bf16", "random", None, 128)


def beside(*, rows=2, skip=(), tokens=(1, 8), with_published=True) -> Beside:
    """Two rows whose simulated figures are the published ones, a fixed part higher; some cells are left out."""
    one = plan(rows=rows, tokens=tokens)
    table = published.load("result-main")
    view = Beside(one, Findings({}, (), {}), 1, table)
    comparisons = {}
    for index, row in enumerate(one.rows):
        for cell in one.cells:
            other = view.other(row, cell.tokens)
            if (index, cell.tokens) not in skip:
                pair = Pair(other.baseline_us * 1.1, other.candidate_us * 1.2)
                comparisons[index, cell.tokens, 1] = Comparison(row, cell.tokens, (pair,))
    return dataclasses.replace(
        view, findings=Findings(comparisons, (), {}), published=table if with_published else None
    )


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
    assert tables.percent(value) == text


def test_fp8_rows_are_named_and_bf16_rows_are_not():
    assert tables.row_label(ROW) == "2A2F, 2,048, random"
    assert tables.row_label(dataclasses.replace(ROW, dtype="fp8")) == "2A2F FP8, 2,048, random"


@pytest.mark.parametrize(("backend", "column"), [("sim", "simulated"), ("cuda", "measured")])
def test_figures_stand_in_the_column_of_their_kind(backend, column):
    view = beside()
    one = dataclasses.replace(view.plan, backend=dataclasses.replace(view.plan.backend, name=backend))
    header, _, first, *_ = tables.result_table(dataclasses.replace(view, plan=one)).splitlines()
    cells = dict(
        zip((part.strip() for part in header.split("|")), (part.strip() for part in first.split("|")), strict=True)
    )
    own = {name: cells[f"{name}, us"] for name in ("simulated", "measured")}
    assert own.pop(column) == "24.8 (34.9, \u221228.8%)"
    assert list(own.values()) == [tables.ABSENT]


def test_without_a_published_table_its_column_is_dashes():
    lines = tables.result_table(beside(with_published=False)).splitlines()[2:]
    assert all(line.split("|")[4].strip() == tables.ABSENT for line in lines)


def test_a_row_without_shared_cells_has_dashes_and_never_a_figure():
    line = tables.fit_table(beside(rows=1, skip={(0, 1), (0, 8)})).splitlines()[-1]
    assert [part.strip() for part in line.split("|")[2:-1]] == [tables.ABSENT] * 4 + ["0"]


def test_voids_are_listed_with_their_reason():
    one = plan()
    process = one.processes[0]
    voids = [
        record(key=one.cell_key(process, cell), status="void", void_reason="drift", latency_us=None)
        for cell in one.cells
    ]
    text = tables.absence_list(findings(one, voids).absences)
    assert "- void: 2A2F, 2,048, random, m2n, pair 1, T = 1, 8: drift" in text
    assert "- missing: 2A2F, 2,048, random, afdep@bd4db4da, pair 1, T = 1, 8: not run" in text


def test_no_cell_is_lost_between_plan_and_table():
    one = plan(rows=4, pairs=2)
    some = [record(key=one.cell_key(process, one.cells[0]), arm=str(process.arm)) for process in one.processes[:5]]
    loaded = [dataclasses.replace(each, loaded_protocol=each.arm) for each in some]
    found = findings(one, loaded)
    assert found.num_ok + len(found.absences) == len(one.processes) * len(one.cells)
    assert found.num_ok == 5


def test_a_pair_that_lost_one_arm_does_not_count():
    one = plan(pairs=2, tokens=(1,))
    kept = [process for process in one.processes if (process.pair, process.arm) != (1, 0)]
    measured = [
        record(key=one.cell_key(process, one.cells[0]), latency_us=30.0 - process.arm, loaded_protocol=str(process.arm))
        for process in kept
    ]
    comparison = findings(one, measured).comparisons[0, 1, 1]
    assert comparison.pairs == (Pair(30.0, 29.0),)


def test_the_slowest_attention_rank_is_the_cell():
    one = plan(tokens=(1,))
    ranks = [(1, "attention", 30.0), (2, "attention", 33.0), (0, "ffn", 99.0)]
    measured = [
        record(
            key=one.cell_key(process, one.cells[0]),
            rank=rank,
            role=role,
            latency_us=us,
            loaded_protocol=str(process.arm),
        )
        for process in one.processes
        for rank, role, us in ranks
    ]
    assert findings(one, measured).comparisons[0, 1, 1].baseline_us == 33.0


def test_a_cell_measured_twice_counts_once():
    one = plan(tokens=(1,))
    twice = [
        record(key=one.cell_key(process, one.cells[0]), latency_us=us, loaded_protocol=str(process.arm))
        for process in one.processes
        for us in (30.0, 31.0)
    ]
    found = findings(one, twice)
    assert found.num_ok == 2
    assert found.comparisons[0, 1, 1].pairs == (Pair(30.0, 30.0),)


def test_padded_columns_line_up():
    lines = tables.markdown(["a", "long header"], [["1", "x"], ["22222", "y"]], frozenset({0})).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "| ----: | ----------- |"
