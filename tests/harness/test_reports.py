"""Reports: pages and plots from records, the README's block, and the records kept behind it."""

import dataclasses
from pathlib import Path

import matplotlib.image
import matplotlib.pyplot as plt
import pytest

from harness import plots, reports
from harness.compose import compose
from harness.errors import HarnessError, ReportError
from harness.records import Reading
from harness.selection import Selection, select
from harness.verbs import records as records_verb
from harness.verbs import report, status
from tests.harness.conftest import make_bench
from tests.harness.test_tables import beside

NO_RECORDS = Reading((), (), 0)
README = f"# Title\n\n{reports.BEGIN}\nold\n{reports.END}\n\n## Install\n"


def select_all(bench) -> Selection:
    return select(compose("report", [], bench.root / "conf"), bench.root)


def test_a_page_holds_table_plots_and_provenance(measured):
    measured.lines.clear()
    assert report.run([], measured.around) == 0
    (page,) = measured.out("reports").rglob("report.md")
    text = page.read_text()
    assert "| 1A1F, 2,048, random     |   1 | 21.6 (31.6, \u221231.6%) |" in text
    assert "![Round trip against tokens](grid-latency.png)" in text
    assert f"plan {measured.plan_file.plan_hash}" in text
    assert measured.plan_file.plan.trees[0].native_digest in text
    assert "`python -m harness screen screen=grid 'tokens=[1,8]'`" in text


def test_a_report_is_the_same_every_time(measured):
    pages = []
    for _ in range(2):
        report.run([], measured.around)
        pages.append([path.read_bytes() for path in sorted(measured.out("reports").rglob("*.*"))])
    assert pages[0] == pages[1]


def test_the_readme_block_is_replaced_and_nothing_else(measured):
    (measured.root / "README.md").write_text(README)
    assert report.run(["target=readme", "screen_name=grid"], measured.around) == 0
    text = (measured.root / "README.md").read_text()
    assert text.startswith(f"# Title\n\n{reports.BEGIN}\nRound trip")
    assert text.endswith(f"{reports.END}\n\n## Install\n")
    assert "21.6 (31.6" in text
    assert "(reports/first-light-latency.png)" in text
    assert (measured.root / "reports" / "first-light-change.png").stat().st_size > 10_000


def test_a_readme_needs_a_complete_screen(measured):
    (measured.root / "README.md").write_text(README)
    with pytest.raises(ReportError, match="expected a complete screen, received one that lacks 4 cells"):
        report._readme(reports.page(dataclasses.replace(select_all(measured), reading=NO_RECORDS)), measured.root)
    assert (measured.root / "README.md").read_text() == README


def test_a_readme_is_made_of_the_main_screen(measured):
    with pytest.raises(ReportError, match="screen_name: expected one with a plan here, received 'main'"):
        report.run(["target=readme"], measured.around)


def test_the_records_behind_the_readme_are_kept_and_give_the_same_block(measured):
    (measured.root / "README.md").write_text(README)
    report.run(["target=readme", "screen_name=grid"], measured.around)
    first = (measured.root / "README.md").read_text()
    assert report.run(["target=readme", "screen_name=grid", "source=records/first-light"], measured.around) == 0
    assert (measured.root / "README.md").read_text() == first


def test_the_records_behind_the_readme_replace_older_ones(measured):
    (measured.root / "README.md").write_text(README)
    kept = measured.root / "records" / "first-light"
    for old in (kept / "plans" / "p0.json", kept / "records" / "p0" / "q0.parquet"):
        old.parent.mkdir(parents=True, exist_ok=True)
        old.write_text("old")
    assert report.run(["target=readme", "screen_name=grid"], measured.around) == 0
    assert [path.stem for path in (kept / "plans").iterdir()] == [measured.plan_file.plan_hash]
    assert [path.name for path in (kept / "records").iterdir()] == [measured.plan_file.plan_hash]


@pytest.mark.parametrize("text", ["no markers", reports.BEGIN, README + README])
def test_a_readme_without_one_pair_of_markers_is_refused(text):
    with pytest.raises(ReportError, match="expected one"):
        reports.replace_block(text, "new")


def test_a_report_without_a_plan_says_what_to_do(tmp_path):
    with pytest.raises(ReportError, match="Run the verb screen first"):
        report.run([], make_bench(tmp_path / "repository").around)


def test_an_unknown_plan_lists_the_known_ones(measured):
    with pytest.raises(HarnessError, match=f"Valid: latest, {measured.plan_file.plan_hash}"):
        report.run(["plan=p0000"], measured.around)


def test_a_digest_that_measured_nothing_reports_nothing(measured):
    measured.lines.clear()
    assert report.run(["digest=n00000000"], measured.around) == 3
    assert "nothing to report" in measured.text


def test_records_counts_by_arm_and_status(measured):
    measured.lines.clear()
    assert records_verb.run([], measured.around) == 0
    assert "| m2n            | n" in measured.text


def test_kept_records_are_complete_and_readable(measured):
    assert records_verb.run(["keep=kept-once"], measured.around) == 0
    assert report.run(["source=records/kept-once"], measured.around) == 0


@pytest.mark.parametrize("name", ["published", "../x", "A", "a/b"])
def test_records_are_kept_under_a_plain_name_alone(measured, name):
    with pytest.raises(HarnessError, match=r"keep: expected a(?:nother)? name"):
        records_verb.run([f"keep={name}"], measured.around)


def test_status_counts_what_is_recorded(measured):
    measured.lines.clear()
    assert status.run([], measured.around) == 0
    assert f"| {measured.plan_file.plan_hash} |" in measured.text
    assert "| grid   |     4 |   4 |    0 |      0 |       0 |             0 |" in measured.text


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("plots")
    view = beside(rows=4, tokens=(1, 8, 32, 128, 512, 2048))
    return {
        "latency": plots.latency(view, folder / "a-latency.png"),
        "change": plots.change(view, folder / "a-change.png"),
    }


@pytest.mark.parametrize("name", ["latency", "change"])
def test_a_plot_fits_a_readme(drawn, name):
    height, width, _ = matplotlib.image.imread(drawn[name]).shape
    assert 800 <= width <= 1100
    assert height < width


def drawn_labels(axes) -> list:
    """Title, and the tick labels of the outer panels that lie within the limits."""
    spec, shown = axes.get_subplotspec(), [axes.title]
    for axis, outer, index in ((axes.xaxis, spec.is_last_row(), 0), (axes.yaxis, spec.is_first_col(), 1)):
        low, high = axis.get_view_interval()
        shown += [text for text in axis.get_ticklabels() if outer and low <= text.get_position()[index] <= high]
    return shown


@pytest.mark.parametrize("draw", [plots.latency, plots.change])
def test_no_two_labels_of_a_plot_overlap(tmp_path, monkeypatch, draw):
    figures = []
    monkeypatch.setattr(plt, "close", figures.append)
    draw(beside(rows=4, tokens=(1, 8, 32, 128, 512, 2048)), tmp_path / "x-y.png")
    renderer = figures[0].canvas.get_renderer()
    texts = [text for axes in figures[0].axes for text in drawn_labels(axes)]
    boxes = [text.get_window_extent(renderer) for text in (*texts, *figures[0].legends[0].get_texts())]
    assert len(boxes) > 20
    assert [(a, b) for index, a in enumerate(boxes) for b in boxes[:index] if a.overlaps(b)] == []


def test_a_plot_without_published_figures_has_no_markers_for_them(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(plt, "close", figures.append)
    plots.latency(dataclasses.replace(beside(), published=None), tmp_path / "x-y.png")
    labels = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert labels == ["m2n, simulated", "afdep@bd4db4da, simulated"]
