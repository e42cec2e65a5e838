"""`NAME report`, `archive` and `export`: a page of records, records that are kept, and records for other tools."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import study
from harness.config.compose import compose
from harness.config.read import NONE, one_of, value
from harness.core.fields import as_name
from harness.core.plan import PlanFile, Workspace
from harness.core.trees import exclusive_directory
from harness.desk import select
from harness.desk.desk import Desk, counted, need
from harness.errors import Exit, ReportError, UsageError
from harness.records import files
from harness.records.envelope import OK
from harness.records.frames import frame
from harness.report.results import Results

FORMATS: dict[str, dict[str, Any]] = {
    ".csv": {"index": False},
    ".json": {"orient": "records", "indent": 1},
    ".parquet": {"index": False},
}
"""By ending of a file, how pandas writes it."""
BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"
"""Where a page of prose, as README.md, takes the short form of a report."""


def run(name: str, texts: Sequence[str], desk: Desk) -> int:
    """Write and print the report of what the keys select."""
    config = compose("action/report", texts, desk.conf)
    results = select.select(name, config, desk)
    module: Any = study.report(name)
    found = module.status(results)
    if found == Exit.NOTHING and not any(row.get("status") == OK for row in results.rows):
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
    """The page of archived records: reports/ mirrors records/; that of records elsewhere lies beside them."""
    kept = desk.root / "records"
    plain = records.with_suffix("")
    if records.is_relative_to(kept):
        return desk.root / "reports" / f"{plain.relative_to(kept)}.md"
    return plain.with_name(f"{plain.name}.md")


def archive(name: str, texts: Sequence[str], desk: Desk) -> int:
    """Copy plans with their records to records/STUDY/NAME and write their report; what is there stays unless told."""
    config = compose("action/archive", texts, desk.conf)
    kept = as_name(need("name", config["name"]))
    results = select.select(name, {**config, "digest": select.ANY}, desk)
    if not all(part.file for part in results.parts):
        raise UsageError(
            f"source {config['source']}: expected plans with their records, received records alone.",
            "Name an out folder, a bundle, or an archive of plans.",
        )
    target = desk.root / "records" / name / kept
    gone = [path for path in (*target.rglob("*"), target.with_suffix(".parquet")) if path.is_file()]
    if gone and not value(bool, config["replace"], "replace"):
        raise UsageError(
            f"name: expected a new one, received {kept!r}, which is there.",
            "Choose another, or write replace=true: what is there goes.",
        )
    _copy(results, target, desk)
    if gone:
        desk.print_line(f"replaced: {counted(len(gone), 'file')} of {desk.shown(target)}, {gone[0].name} first")
    found = select.select(name, {"source": str(target), "plan": select.ALL}, desk)
    written = [target, *write(found, page_of(target, desk))]
    desk.print_line("written: " + ", ".join(desk.shown(path) for path in written))
    return int(study.report(name).status(found))


def _copy(results: Results, target: Path, desk: Desk) -> None:
    """Copy plans, rounds and records into a folder beside the target, and put that in its place at one stroke.

    An archive of one file, as they were before there were plans, has the same page, and goes.
    """
    aside = exclusive_directory(target.parent, f".{target.name}")
    try:
        for part in results.parts:
            assert part.file is not None
            plan, own = part.file.path, _records(part.file)
            for path in (*plan.parent.glob(f"{plan.stem}*.json"), *own.glob("*.parquet")):
                copy = aside / ("plans" if path.suffix == ".json" else f"records/{part.file.plan_hash}") / path.name
                files.replace(copy, path.read_bytes())
        if target.exists():
            shutil.rmtree(target)
        aside.rename(target)
        target.with_suffix(".parquet").unlink(missing_ok=True)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def export(name: str, texts: Sequence[str], desk: Desk) -> int:
    """Write records as one table."""
    config = compose("action/export", texts, desk.conf)
    path = desk.path(need("file", config["file"]))
    kind = one_of("file", path.suffix, tuple(FORMATS))
    if path.exists():
        raise UsageError(f"file: expected a new one, received {path.name}, which is there.", "Choose another name.")
    results = select.select(name, {**config, "digest": select.ANY}, desk)
    sources = [_records(part.file) for part in results.parts if part.file] or [desk.path(str(config["source"]))]
    table = None if config["table"] == select.ANY else str(config["table"])
    found = frame(sources, table)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.tmp")
    try:
        getattr(found, f"to_{kind[1:]}")(aside, **FORMATS[kind])
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    desk.print_line(f"written: {desk.shown(path)}, {counted(len(found), 'row')} of {len(found.columns)} columns")
    return Exit.OK


def _records(file: PlanFile) -> Path:
    """The folder of a plan's records, in the workspace that it stands in."""
    return Workspace(file.path.parent.parent).records(file.plan_hash)
