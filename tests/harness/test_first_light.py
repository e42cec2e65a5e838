"""The kept simulated figures: how near they are to the published ones, and that this tree still gives them."""

from statistics import median

import pytest

from harness.statistics import rms_relative_error_pct
from tests.harness.kept import comparison, shared, simulate

MOST_RMS_PCT, MOST_MEDIAN_POINTS, MOST_POINTS = 10.0, 2.5, 6.0
REPEATED_CELLS = 3


@pytest.fixture(scope="module")
def kept():
    """The comparison of the kept plan with the published table."""
    return comparison("first-light")


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
