"""The page of several plans: each kind of figure has a column of its own, and what does not count is listed."""

import dataclasses

import pytest

from harness.errors import PublishedError
from harness.report import published
from harness.report.markdown import percent
from harness.report.published import Point, upstream
from harness.studies.screen import plots, report
from harness.studies.screen.tables import Found
from tests.harness.samples import EXCHANGE, FREE, HOST, ROW, TABLE, figures, on_gpus, part, plan, records, results

ARMS = ("m2n", "afdep@bd4db4da", "nccl")


def measured(
    device=HOST, ranks=1, arms=ARMS, rows=(ROW,), published=None, more_us=0.0, end=lambda b, t: "ok", **exchange
):
    """A plan of three arms in two pairs with its records; without a device, of the simulator."""
    own = plan(
        rows=rows,
        arms=arms if device else [arm for arm in arms if arm != "nccl"],
        backend=on_gpus(device, ranks_per_gpu=ranks)
        if device
        else dataclasses.replace(on_gpus(), name="sim", device=None),
        exchange=dataclasses.replace(EXCHANGE, **exchange),
        published=published,
    )
    us_of = figures(own)
    return part(own, records(own, lambda batch, trial: us_of(batch, trial) + more_us, end))


def text(*parts):
    return report.text(results(*parts))


def columns(page, heading="1A1F, 2,048, random"):
    """The columns of the first table under a heading, by name."""
    lines = page.partition(f"### {heading}\n\n")[2].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: [row[at] for row in cells[2:]] for at, name in enumerate(cells[0])}


def others(found):
    """The columns that hold another kind of figure than was measured here."""
    return [name for name in found if any(word in name for word in ("published", "simulated", "original library"))]


def test_a_measured_cell_has_its_pairs_and_its_paired_change():
    found = columns(text(measured()))
    assert found["`m2n` measured"] == ["30.5 (30.0\u201331.0)"] * 2
    assert found["`afdep@bd4db4da` measured"] == ["20.5 (20.0\u201321.0; \u221232.8%)"] * 2


def test_upstream_and_simulated_figures_stand_in_columns_of_their_own():
    found = columns(text(measured(), measured(None, more_us=10.0)))
    assert list(found)[:4] == ["T", "`m2n` measured", "measured with the original library as M2N", "`m2n` simulated"]
    first = [found[name][0] for name in list(found)[:4]]
    assert first == ["1", "30.5 (30.0\u201331.0)", "32.4, 34.2", "40.5"]


def test_a_column_without_a_figure_is_left_out():
    found = columns(text(measured(rows=(dataclasses.replace(ROW, hidden=1024),))), "1A1F, 1,024, random")
    assert not others(found)


def test_bare_rows_are_labelled_and_their_library_is_named():
    page = text(measured())
    assert "`nccl` (bare rows) measured" in columns(page)
    assert "- external: torch 1, nccl 2" in page
    assert "- ran on 2 x NVIDIA H200" in page


def test_an_eager_plan_shows_what_an_exchange_costs_the_host():
    found = columns(text(measured(mode="eager")))
    assert found["`m2n` host us, API calls"] == ["70.5, 20.0"] * 2
    assert not others(found)


def test_plans_that_timed_alike_stand_under_one_heading():
    page = text(measured(), measured(device=FREE), measured(transport_sms=64), measured(rows=TABLE[:1]))
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert len([one for one in headings if "transport SMs" in one]) == 3
    assert any("at least 2,000 us each, free-running" in one for one in headings)


@pytest.mark.parametrize(
    ("ranks", "words"), [(1, ", each behind a barrier of all ranks"), (3, ", at most 3 ranks a GPU, co-located")]
)
def test_a_heading_says_how_many_ranks_the_fullest_gpu_has_where_they_share(ranks, words):
    (heading,) = [line for line in text(measured(ranks=ranks)).splitlines() if line.startswith("## 24")]
    assert heading.endswith(words)


def test_ranks_that_share_gpus_stand_beside_no_other_kind_of_figure():
    alone, shared = (columns(text(measured(ranks=ranks))) for ranks in (1, 2))
    assert others(alone)
    assert "`m2n` measured, co-located" in shared
    assert not others(shared)


def test_a_missing_cell_is_a_dash_and_is_listed():
    page = text(measured(end=lambda batch, trial: "missing" if (trial.arm, trial.tokens) == (2, 8) else "ok"))
    assert columns(page)["`nccl` (bare rows) measured"][1] == "\u2014"
    assert "- missing: 1A1F, 2,048, random, nccl, pair 1, T = 8: not run" in page


def test_a_pair_that_was_not_run_is_listed_and_the_other_one_counts():
    page = text(measured(end=lambda batch, trial: "missing" if trial.pair else "ok"))
    assert columns(page)["`afdep@bd4db4da` measured"] == ["20.0 (20.0\u201320.0; \u221233.3%)"] * 2
    assert "- missing: 1A1F, 2,048, random, nccl, pair 2, T = 1, 8: not run" in page


@pytest.mark.parametrize("layout", [0, 2])
def test_a_plan_that_names_a_published_table_shows_both_arms_and_the_change_of_it(layout):
    row, table = TABLE[layout], published.load("result-main")
    found = columns(text(measured(rows=(row,), published="result-main")), row.label)
    cells = [table.cells[Point.of(row, tokens)] for tokens in (1, 8)]
    assert found["`m2n` published, 4xH100"] == [f"{cell.baseline_us:.1f}" for cell in cells]
    candidate = [f"{cell.candidate_us:.1f} ({percent(cell.change_pct)})" for cell in cells]
    assert found["`afdep@bd4db4da` published, 4xH100"] == candidate


def test_round_trips_published_of_four_h200s_stand_beside_the_row_that_has_them():
    arms = ("m2n", "afdep", "afdep@bd4db4da")
    page = text(measured(rows=(TABLE[0], TABLE[2]), published="result-main", arms=arms))
    found = columns(page, TABLE[0].label)
    assert found["`m2n` published, 4xH200"] == ["28.2", "31.4"]
    assert found["`afdep` published, 4xH200"] == ["19.8", "23.3"]
    assert "`afdep` published, 4xH200" not in columns(page, TABLE[2].label)  # there it collects a view


@pytest.mark.parametrize(("device", "table"), [(FREE, "result-main"), (HOST, None)], ids=["free running", "no table"])
def test_published_tables_stand_beside_replays_behind_a_barrier_and_plans_that_name_one_alone(device, table):
    found = columns(text(measured(device, rows=TABLE[:1], published=table)), TABLE[0].label)
    assert not any("H100" in name or "4xH200" in name for name in found)


@pytest.mark.parametrize(
    ("arm", "us"),
    [("fastafd_m2n", [28.2, 31.4, 32.4, 40.2, 73.0, 188.0]), ("afdep", [19.8, 23.3, 24.6, 32.3, 66.2, 181.3])],
)
def test_the_published_record_has_the_round_trips_of_four_h200s(arm, us):
    found = published.round_trips(published.H200_TABLE, arm, "4xH200")
    points = [Point("2A2F", 2048, "bf16", "random", tokens) for tokens in (1, 8, 32, 128, 512, 2048)]
    assert [found[point] for point in points] == us


@pytest.mark.parametrize(("arm", "machine"), [("fastafd", "4xH200"), ("afdep", "8xH200")])
def test_an_arm_or_a_machine_that_was_not_published_is_an_error(arm, machine):
    with pytest.raises(PublishedError, match=f"expected round trips of {arm} on {machine}"):
        published.round_trips(published.H200_TABLE, arm, machine)


def test_upstream_figures_are_data_with_a_source():
    assert upstream()["upstream", Point("1A1F", 2048, "bf16", "random", 1), 24] == (32.4, 34.2)
    assert (published.UPSTREAM.parent / "README.md").is_file()


def test_a_lost_table_of_upstream_figures_is_an_error(tmp_path):
    with pytest.raises(PublishedError, match="expected under"):
        upstream(tmp_path / "round-trips.csv")


def test_graph_replays_stand_ahead_of_calls_by_the_host_and_a_common_start_ahead_of_none():
    parts = [measured(mode="eager"), measured(device=FREE), measured(transport_sms=64), measured()]
    found = [Found(one) for one in parts]
    assert report.in_order(found) == [found[3], found[2], found[1], found[0]]


def test_a_page_without_graph_replays_has_no_plot(tmp_path):
    found = [Found(measured(mode="eager"))]
    assert plots.measured(found, {}, tmp_path / "none.png") == []
    assert not list(tmp_path.iterdir())


def test_several_simulated_plans_have_a_table_and_plots_each_and_their_own_title(tmp_path):
    both = results(measured(None, published="result-main"), measured(None, seed=1), name="two")
    page = report.text(both, [("x.png", "words")])
    assert page.startswith("# Screen two\n")
    assert page.count("| simulated, us ") == 2
    assert "![words](x.png)" in page
    drawn = [path for path, _ in report.draw(both, tmp_path, "two")]
    assert len(set(drawn)) == 4
    assert all(path.stat().st_size > 10_000 for path in drawn)
