"""The kept simulated figures: how near they are to the published ones, and that this tree still gives them."""

from statistics import median

import pytest

from afdep import World
from harness import reports
from harness.compose import compose
from harness.selection import select
from harness.statistics import rms_relative_error_pct
from harness.worker import prove_and_time
from harness.workspace import REPOSITORY

MOST_RMS_PCT, MOST_MEDIAN_POINTS, MOST_POINTS = 10.0, 2.5, 6.0
REPEATED_CELLS = 3


@pytest.fixture(scope="module")
def kept():
    """The comparison of the kept plan with the published table."""
    (beside,) = reports.page(select(compose("report", ["source=records/first-light"]), REPOSITORY)).besides
    return beside


def shared(beside):
    """Each cell's own and published comparison, with its row."""
    for index, row in enumerate(beside.plan.rows):
        for cell in beside.plan.cells:
            yield row, beside.own(index, cell.tokens), beside.other(row, cell.tokens)


def rms_pct(beside, layout, hidden, figure):
    pairs = [(own, other) for row, own, other in shared(beside) if (row.layout, row.hidden) == (layout, hidden)]
    assert len(pairs) == 6
    return rms_relative_error_pct([getattr(own, figure) for own, _ in pairs], [getattr(o, figure) for _, o in pairs])


@pytest.mark.parametrize("figure", ["baseline_us", "candidate_us"])
@pytest.mark.parametrize(("layout", "hidden"), [("2A2F", 2048), ("2A2F", 4096), ("3A1F", 2048), ("1A3F", 2048)])
def test_simulated_round_trips_are_within_ten_percent_rms_of_the_published(kept, layout, hidden, figure):
    assert rms_pct(kept, layout, hidden, figure) <= MOST_RMS_PCT


def test_simulated_changes_are_within_a_few_points_of_the_published(kept):
    points = [abs(own.change_pct - other.change_pct) for _, own, other in shared(kept)]
    assert len(points) == 24
    assert median(points) <= MOST_MEDIAN_POINTS
    assert max(points) <= MOST_POINTS


def test_the_bars_can_fail(kept):
    _, own, other = next(shared(kept))
    assert rms_relative_error_pct([1.2 * other.baseline_us], [other.baseline_us]) > MOST_RMS_PCT
    assert abs(own.change_pct + 40 - other.change_pct) > MOST_POINTS


@pytest.mark.parametrize("arm", [0, 1])
@pytest.mark.parametrize("index", range(4))
def test_this_tree_gives_the_kept_figures_again(kept, index, arm):
    row, figure = kept.plan.rows[index], ["baseline_us", "candidate_us"][arm]
    cells = kept.plan.cells[:REPEATED_CELLS]
    expected = [getattr(kept.own(index, cell.tokens), figure) for cell in cells]
    assert simulate(kept.plan, row, kept.plan.arms[arm].name, cells) == pytest.approx(expected, rel=1e-12)


def simulate(plan, row, arm, cells):
    """The cells as a worker measures them: the median over exchanges, then the maximum over Attention ranks."""
    shape = {"hidden": row.hidden, "num_experts": row.experts, "arm": arm, "transport_sms": plan.exchange.transport_sms}
    limits = {"top_k": plan.exchange.top_k, "capacity": plan.exchange.capacity}
    world = World(row.layout, **shape, **limits, mode="time", machine=plan.backend.machine)
    timings = [prove_and_time(plan, row, world, cell).per_rank_us for cell in cells]
    return [max(median(times[rank]) for rank in world.layout.attention_rank_ids) for times in timings]
