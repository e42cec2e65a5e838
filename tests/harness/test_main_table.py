"""The kept simulated main table, all six rows: how near to the published one, and that this tree still gives it."""

from statistics import median

import pytest

from harness import plots, reports
from harness.statistics import rms_relative_error_pct
from harness.workspace import REPOSITORY
from tests.harness.kept import comparison, page, shared, simulate

MOST_RMS_PCT, MOST_MEDIAN_POINTS, MOST_POINTS = 12.0, 2.0, 5.0
FIGURES = ("baseline_us", "candidate_us")
ROWS = {"2A2F": 0, "2A2F-H4096": 1, "2A2F-skew": 2, "3A1F": 3, "1A3F": 4, "2A2F-fp8": 5}
REPEATED_ROWS = ("2A2F-skew", "2A2F-fp8")
"""The other rows are repeated by the tests of the main screen."""
REPEATED_CELLS = 3


@pytest.fixture(scope="module")
def kept():
    return comparison("main-table")


def absolutes(cells):
    """Both arms' own and published figures."""
    return [(getattr(own, name), getattr(other, name)) for _, own, other in cells for name in FIGURES]


def rms_pct(pairs):
    return rms_relative_error_pct([own for own, _ in pairs], [other for _, other in pairs])


def test_the_kept_table_is_the_published_one(kept):
    rows = [(row.layout, row.hidden, row.dtype, row.routing, row.experts) for row in kept.plan.rows]
    assert [arm.name for arm in kept.plan.arms] == ["m2n", "afdep@bd4db4da"]
    assert rows[ROWS["2A2F-skew"]] == ("2A2F", 2048, "bf16", "skew", 128)
    assert rows[ROWS["2A2F-fp8"]] == ("2A2F", 2048, "fp8", "random", 128)
    assert len(absolutes(shared(kept))) == 72


def test_the_page_says_what_the_records_say():
    kept, folder = page("main-table"), REPOSITORY / "reports" / "main-table"
    pictures = [folder / f"table-{name}.png" for name in ("latency", "change")]
    wanted = reports.header(kept.selection.plan_file) + reports.body(kept, plots.image_lines(pictures, folder))
    assert (folder / "report.md").read_text(encoding="utf-8") == wanted
    assert all(picture.is_file() for picture in pictures)


def test_all_72_round_trips_are_within_twelve_percent_rms_of_the_published(kept):
    assert rms_pct(absolutes(shared(kept))) <= MOST_RMS_PCT


@pytest.mark.parametrize("name", ROWS)
def test_each_row_is_within_twelve_percent_rms_of_the_published(kept, name):
    pairs = absolutes(cell for cell in shared(kept) if cell[0] is kept.plan.rows[ROWS[name]])
    assert len(pairs) == 12
    assert rms_pct(pairs) <= MOST_RMS_PCT


def test_paired_changes_are_within_two_points_in_the_median_and_five_at_the_worst(kept):
    points = [abs(own.change_pct - other.change_pct) for _, own, other in shared(kept)]
    assert len(points) == 36
    assert median(points) <= MOST_MEDIAN_POINTS
    assert max(points) <= MOST_POINTS


def test_the_bars_can_fail(kept):
    pairs = [(1.13 * other, other) for _, other in absolutes(shared(kept))]
    assert rms_pct(pairs) > MOST_RMS_PCT
    _, own, other = next(shared(kept))
    assert abs(own.change_pct + 10 - other.change_pct) > MOST_POINTS


@pytest.mark.parametrize("arm", [0, 1])
@pytest.mark.parametrize("name", REPEATED_ROWS)
def test_this_tree_gives_the_kept_figures_again(kept, name, arm):
    index, cells = ROWS[name], kept.plan.cells[:REPEATED_CELLS]
    expected = [getattr(kept.own(index, cell.tokens), FIGURES[arm]) for cell in cells]
    found = simulate(kept.plan, kept.plan.rows[index], kept.plan.arms[arm].name, cells)
    assert found == pytest.approx(expected, rel=1e-12)


# Where docs/cost-model.md says that the model is wrong: row, tokens, sign of simulated minus published.
KNOWN_ERRORS = (
    *(("2A2F-H4096", tokens, -1) for tokens in (8, 32, 128)),
    *(("2A2F-H4096", tokens, +1) for tokens in (512, 2048)),
    *((name, 128, -1) for name in ("2A2F", "2A2F-skew", "2A2F-fp8")),
    ("3A1F", 32, -1),
    *(("3A1F", tokens, +1) for tokens in (512, 2048)),
)


@pytest.mark.parametrize(("name", "tokens", "sign"), KNOWN_ERRORS)
def test_both_arms_are_wrong_in_the_direction_that_the_cost_model_page_states(kept, name, tokens, sign):
    own, other = cell_of(kept, name, tokens)
    assert sign * (own.baseline_us - other.baseline_us) > 0
    assert sign * (own.candidate_us - other.candidate_us) > 0


@pytest.mark.parametrize("tokens", [8, 32])
def test_one_source_for_three_ranks_is_too_slow_in_afdep(kept, tokens):
    own, other = cell_of(kept, "1A3F", tokens)
    assert own.candidate_us > other.candidate_us


def cell_of(kept, name, tokens):
    row = kept.plan.rows[ROWS[name]]
    return next((own, other) for one, own, other in shared(kept) if one is row and own.tokens == tokens)
