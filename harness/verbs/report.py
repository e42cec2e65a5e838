"""`report`: tables and plots of a plan, printed and written; `target=readme` refreshes README.md and reports/."""

from collections.abc import Sequence
from pathlib import Path

from harness import keeping, plots, reports
from harness.compose import compose
from harness.errors import ReportError
from harness.reports import Page
from harness.selection import ANY, select
from harness.surroundings import NOTHING, OK, Surroundings
from harness.words import as_choice
from harness.workspace import displayed

README, README_SCREEN = "readme", "main"
README_STEM = "first-light"
"""Name of the README's plots, and of the folder under records/ that keeps what its figures come from, and no more."""


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Report on one plan."""
    config = compose("report", texts, around.repository / "conf")
    target = as_choice("target", config["target"], ("page", README))
    if target == README and config["screen_name"] == ANY:
        config = {**config, "screen_name": README_SCREEN}
    page = reports.page(select(config, around.repository))
    around.print_line(reports.body(page))
    if not page.found.comparisons:
        around.print_line("nothing to report: no cell of this plan has both arms")
        return NOTHING
    written = _readme(page, around.repository) if target == README else _page(page)
    around.print_line("written: " + ", ".join(displayed(path, around.repository) for path in written))
    return OK


def _page(page: Page) -> list[Path]:
    file = page.selection.plan_file
    folder = page.selection.workspace.reports / file.plan_hash
    pictures = plots.pictures(page.besides, folder, file.plan.screen)
    path = folder / "report.md"
    path.write_text(reports.header(file) + reports.body(page, plots.image_lines(pictures, folder)), encoding="utf-8")
    return [path, *pictures]


def _readme(page: Page, repository: Path) -> list[Path]:
    """The README's block, its plots, and the records they come from."""
    path = repository / "README.md"
    if not path.is_file():
        raise ReportError("README.md: expected at the root of the repository, received none.", "Restore it.")
    missing = len(page.found.absences)
    if missing:
        raise ReportError(
            f"README.md: expected a complete screen, received one that lacks {missing} cells.", "Resume it."
        )
    kept = keeping.keep_alone(page.selection, repository / "records" / README_STEM)
    pictures = plots.pictures(page.besides, repository / "reports", README_STEM)
    block = reports.body(page, plots.image_lines(pictures, repository))
    path.write_text(reports.replace_block(path.read_text(encoding="utf-8"), block), encoding="utf-8")
    return [path, *pictures, kept]
