"""`report`: tables and plots of a plan, printed and written; `target=readme` refreshes README.md and reports/.

`target=all` writes one page of every plan of a folder, as reports/FOLDER.md.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import keeping, measured_plots, pages, plots, reports, sections, upstream
from harness.compose import compose
from harness.errors import ReportError
from harness.reports import Page
from harness.selection import ANY, OUT, select
from harness.surroundings import NOTHING, OK, Surroundings
from harness.words import as_choice, as_word
from harness.workspace import Workspace, displayed

README, README_SCREEN = "readme", "main"
ALL = "all"
README_STEM = "first-light"
"""Name of the README's plots, and of the folder under records/ that keeps what its figures come from, and no more."""


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Report on one plan, or with `target=all` on every plan of a folder."""
    config = compose("report", texts, around.repository / "conf")
    target = as_choice("target", config["target"], ("page", README, ALL))
    if target == ALL:
        return _all(config, around)
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


def _all(config: Mapping[str, Any], around: Surroundings) -> int:
    """One page of every plan of a folder, under the folder's name."""
    source = as_word("source", config["source"], "a folder or out")
    workspace = Workspace.under(sections.launcher(config).out if source == OUT else source, around.repository)
    parts = pages.parts_of(workspace)
    if not any(part.found.num_ok for part in parts):
        around.print_line("nothing to report: no cell of these plans counts")
        return NOTHING
    path = around.repository / "reports" / f"{workspace.out.name}.md"
    others = upstream.load()
    picture = measured_plots.latency(parts, others, path.with_name(f"{path.stem}-latency.png"))
    path.write_text(pages.text(parts, others, picture.name if picture else None), encoding="utf-8")
    written = [path, picture] if picture else [path]
    around.print_line("written: " + ", ".join(displayed(one, around.repository) for one in written))
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
