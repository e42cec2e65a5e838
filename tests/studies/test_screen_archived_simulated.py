"""The archived simulated figures: how near they are to the published ones, and that this tree still gives them."""

from statistics import median

import pytest

from harness.desk import report as pages
from harness.studies.screen.tables import rms_relative_error_pct
from tests.studies.archived import DESK, comparison, results, shared, simulate

FIGURES = ("baseline_us", "candidate_us")
REPEATED_CELLS = 3
ROWS = {"2A2F": 0, "2A2F-H4096": 1, "2A2F-skew": 2, "3A1F": 3, "1A3F": 4, "2A2F-fp8": 5}
REPEATED_ROWS = ("2A2F-skew", "2A2F-fp8")
"""The other rows are repeated by the tests of the main screen."""


@pytest.fixture(scope="module")
def screen():
    """The comparison of the archived main screen with the published table."""
    return comparison("first-light")


@pytest.fixture(scope="module")
def table():
    """That of the whole main table, all six rows."""
    return comparison("main-table")


def absolutes(cells):
    """Both arms' own and published figures."""
    return [(getattr(own, name), getattr(other, name)) for _, own, other in cells for name in FIGURES]


def rms_pct(pairs):
    return rms_relative_error_pct([own for own, _ in pairs], [other for _, other in pairs])


def points(beside):
    """How far each paired change is from the published one, in points."""
    return [abs(own.change_pct - other.change_pct) for _, own, other in shared(beside)]


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize(("layout", "hidden"), [("2A2F", 2048), ("2A2F", 4096), ("3A1F", 2048), ("1A3F", 2048)])
def test_simulated_round_trips_are_within_ten_percent_rms_of_the_published(screen, layout, hidden, figure):
    cells = [(own, other) for row, own, other in shared(screen) if (row.layout, row.hidden) == (layout, hidden)]
    assert len(cells) == 6
    assert rms_pct([(getattr(own, figure), getattr(other, figure)) for own, other in cells]) <= 10.0


def test_simulated_changes_are_within_a_few_points_of_the_published(screen):
    assert len(points(screen)) == 24
    assert median(points(screen)) <= 2.5
    assert max(points(screen)) <= 6.0


def test_the_bars_of_the_main_screen_can_fail(screen):
    _, own, other = next(shared(screen))
    assert rms_pct([(1.2 * other.baseline_us, other.baseline_us)]) > 10.0
    assert abs(own.change_pct + 40 - other.change_pct) > 6.0


def again(beside, index, arm):
    """What this tree gives of the first cells of a row, and what is archived."""
    settings = beside.found.settings
    tokens = settings.tokens[:REPEATED_CELLS]
    expected = [getattr(beside.own(index, one), FIGURES[arm]) for one in tokens]
    return simulate(settings, settings.rows[index], settings.arms[arm].name, tokens), expected


@pytest.mark.parametrize("arm", [0, 1])
@pytest.mark.parametrize("index", range(4))
def test_this_tree_gives_the_archived_figures_of_the_main_screen_again(screen, index, arm):
    found, expected = again(screen, index, arm)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("arm", [0, 1])
@pytest.mark.parametrize("name", REPEATED_ROWS)
def test_this_tree_gives_the_archived_figures_of_the_whole_table_again(table, name, arm):
    found, expected = again(table, ROWS[name], arm)
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_archived_table_is_the_published_one(table):
    settings = table.found.settings
    rows = [(row.layout, row.hidden, row.dtype, row.routing, row.num_experts) for row in settings.rows]
    assert [arm.name for arm in settings.arms] == ["m2n", "afdep@bd4db4da"]
    assert rows[ROWS["2A2F-skew"]] == ("2A2F", 2048, "bf16", "skew", 128)
    assert rows[ROWS["2A2F-fp8"]] == ("2A2F", 2048, "fp8", "random", 128)
    assert len(absolutes(shared(table))) == 72


def test_all_72_round_trips_are_within_twelve_percent_rms_of_the_published(table):
    assert rms_pct(absolutes(shared(table))) <= 12.0


@pytest.mark.parametrize("name", ROWS)
def test_each_row_is_within_twelve_percent_rms_of_the_published(table, name):
    row = table.found.settings.rows[ROWS[name]]
    pairs = absolutes(cell for cell in shared(table) if cell[0] is row)
    assert len(pairs) == 12
    assert rms_pct(pairs) <= 12.0


def test_paired_changes_are_within_two_points_in_the_median_and_five_at_the_worst(table):
    assert len(points(table)) == 36
    assert median(points(table)) <= 2.0
    assert max(points(table)) <= 5.0


def test_the_bars_of_the_whole_table_can_fail(table):
    assert rms_pct([(1.13 * other, other) for _, other in absolutes(shared(table))]) > 12.0
    _, own, other = next(shared(table))
    assert abs(own.change_pct + 10 - other.change_pct) > 5.0


# Where docs/cost-model.md says that the model is wrong: row, tokens, sign of simulated minus published.
KNOWN_ERRORS = (
    *(("2A2F-H4096", tokens, -1) for tokens in (8, 32, 128)),
    *(("2A2F-H4096", tokens, +1) for tokens in (512, 2048)),
    *((name, 128, -1) for name in ("2A2F", "2A2F-skew", "2A2F-fp8")),
    ("3A1F", 32, -1),
    *(("3A1F", tokens, +1) for tokens in (512, 2048)),
)


@pytest.mark.parametrize(("name", "tokens", "sign"), KNOWN_ERRORS)
def test_both_arms_are_wrong_in_the_direction_that_the_cost_model_page_states(table, name, tokens, sign):
    own, other = cell_of(table, name, tokens)
    assert sign * (own.baseline_us - other.baseline_us) > 0
    assert sign * (own.candidate_us - other.candidate_us) > 0


@pytest.mark.parametrize("tokens", [8, 32])
def test_one_source_for_three_ranks_is_too_slow_in_afdep(table, tokens):
    own, other = cell_of(table, "1A3F", tokens)
    assert own.candidate_us > other.candidate_us


def cell_of(table, name, tokens):
    index = ROWS[name]
    return table.own(index, tokens), table.other(table.found.settings.rows[index], tokens)


@pytest.mark.parametrize("folder", ["first-light", "main-table"])
def test_the_screen_behind_a_page_is_complete_and_sound(folder):
    (one,) = results(folder).parts
    assert one.reading.quarantined == ()
    assert comparison(folder).found.absences == ()
    assert comparison(folder).found.lost == ()


@pytest.mark.parametrize("folder", ["first-light", "main-table"])
def test_a_page_and_its_plots_are_those_of_its_records_to_the_last_byte(tmp_path, folder):
    page = DESK.root / "reports" / "screen" / f"{folder}.md"
    written, *pictures = pages.write(results(folder), tmp_path / page.name)
    assert written.read_text("utf-8") == page.read_text("utf-8")
    assert len(pictures) == 2
    assert all(picture.read_bytes() == (page.parent / picture.name).read_bytes() for picture in pictures)
