"""`NAME report`: the page of records with its plots, written first and printed then."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import study
from harness.config.compose import compose
from harness.config.read import NONE
from harness.desk import select
from harness.desk.desk import Desk, Workspace
from harness.errors import Exit, ReportError
from harness.records import files
from harness.report.results import Results

BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"
"""Where a page of prose, as README.md, takes the short form of a report."""


def run(name: str, texts: Sequence[str], desk: Desk) -> int:
    """Write and print the report of what the keys select."""
    config = compose("action/report", texts, desk.conf)
    results = select.select(name, config, desk)
    module: Any = study.report(name)
    if (found := module.status(results)) == Exit.NOTHING:
        desk.print_line(module.summary(results))
        desk.print_line("nothing to report: no trial of these plans counts")
        return int(found)
    written = write(results, _target(results, config, desk))
    if config["write"] != NONE:
        written += module.products(results, desk.path(str(config["write"])), desk.conf)
    desk.print_line(module.summary(results))
    desk.print_line("written: " + ", ".join(desk.shown(path) for path in written))
    return Exit.OK


def write(results: Results, path: Path) -> list[Path]:
    """Write a page with its plots beside it, or a study's short form into the marked block of a page of prose."""
    module: Any = study.report(results.study)
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    if BEGIN in page:
        if not hasattr(module, "block"):
            raise ReportError(
                f"{path.name}: expected a study with a short form, received {results.study}.",
                "Write its report to a page of its own: to=PATH.",
            )
        files.replace(path, replace_block(path.name, page, module.block(results)).encode())
        return [path]
    drawn = module.draw(results, path.parent, path.stem) if hasattr(module, "draw") else []
    text = module.text(results, [(picture.name, words) for picture, words in drawn])
    files.replace(path, text.encode())
    return [path, *(picture for picture, _ in drawn)]


def replace_block(name: str, page: str, block: str) -> str:
    """The page with everything between its two markers replaced.

    Raises:
        ReportError: not exactly one pair of markers.
    """
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ReportError(f"{name}: expected one {BEGIN} ... {END}, received another number.", "Restore the markers.")
    return pattern.sub(lambda _: f"{BEGIN}\n{block.strip()}\n{END}", page)


def _target(results: Results, config: dict[str, Any], desk: Desk) -> Path:
    """Where the page goes: where the user says, below the out folder, or where reports mirrors records."""
    if config["to"] != NONE:
        return desk.path(str(config["to"]))
    if config["source"] == select.OUT:
        (part, *_) = results.parts
        assert part.file is not None
        return Workspace(desk.path(str(config["launcher"]["out"]))).report(part.file.plan_hash)
    return page_of(desk.path(str(config["source"])), desk)


def page_of(records: Path, desk: Desk) -> Path:
    """The page of archived records: reports/ mirrors records/; of records elsewhere it lies beside them."""
    kept = desk.root / "records"
    plain = records.with_suffix("")
    if records.is_relative_to(kept):
        return desk.root / "reports" / f"{plain.relative_to(kept)}.md"
    return plain.with_name(f"{plain.name}.md")
