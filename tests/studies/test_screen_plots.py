"""Plots of screens: they fit a page, nothing overlaps, and they look alike whatever a user has set up."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import matplotlib.pyplot as plt
import pytest

from harness.studies.screen import plots
from tests.studies.test_screen_tables import beside

ROOT = Path(__file__).resolve().parents[2]
TOKENS = (1, 8, 32, 128, 512, 2048)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("plots")
    view = beside(rows=4, tokens=TOKENS)
    return {name: getattr(plots, name)(view, folder / f"a-{name}.png") for name in ("latency", "change")}


@pytest.mark.parametrize("name", ["latency", "change"])
def test_a_plot_fits_a_readme(drawn, name):
    height, width, _ = matplotlib.image.imread(drawn[name]).shape
    assert 800 <= width <= 1100
    assert height < width


@pytest.fixture
def figures(monkeypatch):
    """Figures that are drawn, kept open."""
    held = []
    monkeypatch.setattr(plt, "close", held.append)
    return held


def drawn_labels(axes) -> list:
    """Title, and the tick labels of the outer panels that lie within the limits."""
    spec, shown = axes.get_subplotspec(), [axes.title]
    for axis, outer, index in ((axes.xaxis, spec.is_last_row(), 0), (axes.yaxis, spec.is_first_col(), 1)):
        low, high = axis.get_view_interval()
        shown += [text for text in axis.get_ticklabels() if outer and low <= text.get_position()[index] <= high]
    return shown


@pytest.mark.parametrize("draw", [plots.latency, plots.change])
def test_no_two_labels_of_a_plot_overlap(tmp_path, figures, draw):
    draw(beside(rows=4, tokens=TOKENS), tmp_path / "x-y.png")
    renderer = figures[0].canvas.get_renderer()
    texts = [text for axes in figures[0].axes for text in drawn_labels(axes)]
    boxes = [text.get_window_extent(renderer) for text in (*texts, *figures[0].legends[0].get_texts())]
    assert len(boxes) > 20
    assert [(a, b) for index, a in enumerate(boxes) for b in boxes[:index] if a.overlaps(b)] == []


@pytest.mark.parametrize(("rows", "named"), [(3, [False, True, True]), (4, [False, False, True, True])])
def test_the_lowest_panel_of_every_column_names_its_tokens(tmp_path, figures, rows, named):
    plots.latency(beside(rows=rows, tokens=TOKENS), tmp_path / "x-y.png")
    panels = [axes for axes in figures[0].axes if axes.get_visible()]
    assert [axes.xaxis.get_major_ticks()[0].label1.get_visible() for axes in panels] == named


def test_a_plot_without_published_figures_has_no_markers_for_them(tmp_path, figures):
    plots.latency(beside(with_published=False), tmp_path / "x-y.png")
    labels = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert labels == ["m2n, simulated", "afdep@bd4db4da, simulated"]


def test_an_axis_of_a_small_range_has_labels(tmp_path, figures):
    plots.latency(beside(rows=1, tokens=(1,), with_published=False), tmp_path / "x-y.png")
    (axes,) = figures[0].axes
    low, high = axes.get_ylim()
    figures[0].canvas.draw()
    assert sum(low <= text.get_position()[1] <= high and bool(text.get_text()) for text in axes.get_yticklabels()) >= 3


def test_a_plot_that_finds_no_place_leaves_the_one_that_was_there(tmp_path, monkeypatch):
    (tmp_path / "x-y.png").write_bytes(b"as it was")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        plots.latency(beside(rows=1, tokens=(1,)), tmp_path / "x-y.png")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"as it was"]


AGAIN = """
import sys
from pathlib import Path
from harness.studies.screen import plots
from tests.studies.test_screen_tables import beside
plots.latency(beside(rows=4, tokens=(1, 8, 32, 128, 512, 2048)), Path(sys.argv[1]))
"""


def test_a_plot_depends_on_no_backend_and_no_settings_of_the_user(drawn, tmp_path):
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nlines.linewidth: 9\nfont.size: 30\n")
    user = {"MPLBACKEND": "module://matplotlib_inline.not_here", "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")}
    command = [sys.executable, "-c", AGAIN, str(tmp_path / "again.png")]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **user}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again.png").read_bytes() == drawn["latency"].read_bytes()
