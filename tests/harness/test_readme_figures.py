"""README's generated block is what its kept records give, to the last digit."""

from pathlib import Path

import pytest

from harness import plots, reports
from harness.compose import compose
from harness.selection import select
from harness.verbs.report import README_STEM

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "records" / README_STEM

pytestmark = pytest.mark.skipif(not KEPT.is_dir(), reason="README has no generated figures yet")


@pytest.fixture(scope="module")
def page():
    return reports.page(select(compose("report", [f"source=records/{README_STEM}"]), ROOT))


def test_readme_says_what_its_records_say(page):
    pictures = [ROOT / "reports" / f"{README_STEM}-{name}.png" for name in ("latency", "change")]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert reports.replace_block(text, reports.body(page, plots.image_lines(pictures, ROOT))) == text
    assert all(picture.is_file() for picture in pictures)


def test_the_screen_behind_readme_is_complete_and_sound(page):
    assert page.found.absences == ()
    assert page.selection.reading.quarantined == ()
    assert page.plan.screen == "main"
