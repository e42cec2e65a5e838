"""`NAME archive` and `NAME export`: records that are kept in the repository, and records for other tools."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.config.compose import compose
from harness.config.read import one_of, value
from harness.core.fields import as_name
from harness.core.trees import exclusive_directory
from harness.desk import report, select
from harness.desk.desk import Desk, Workspace, need
from harness.errors import Exit, UsageError
from harness.records import files
from harness.records.frames import frame
from harness.report.results import Results
from harness.study import report as report_of

RESERVED = ("published", "upstream")
"""Folders of records/ that hold figures of others."""
FORMATS = (".csv", ".json", ".parquet")


def archive(name: str, texts: Sequence[str], desk: Desk) -> int:
    """Copy plans with their records below records/ and write their report; nothing that is there goes unless told."""
    config = compose("action/archive", texts, desk.conf)
    kept = as_name(need("name", config["name"]))
    if kept in RESERVED:
        raise UsageError(f"name: expected another than {kept}, received it.", "It holds figures of others: choose one.")
    results = select.select(name, {**config, "digest": select.ANY}, desk)
    target = desk.root / "records" / (kept if name == "screen" else f"{name}/{kept}")
    replace = value(bool, config["replace"], "replace")
    if target.exists() and not replace:
        raise UsageError(
            f"name: expected a new one, received {kept!r}, which is there.",
            "Choose another, or write replace=true: what is there goes.",
        )
    gone = [path for path in target.rglob("*") if path.is_file()]
    _copy(results, target, desk)
    if gone:
        desk.print_line(f"replaced: {len(gone)} files of {desk.shown(target)}, {gone[0].name} and others")
    found = select.select(name, {"source": str(target), "plan": select.ALL}, desk)
    written = [target, *report.write(found, report.page_of(target, desk))]
    desk.print_line("written: " + ", ".join(desk.shown(path) for path in written))
    return int(report_of(name).status(found))


def _copy(results: Results, target: Path, desk: Desk) -> None:
    """Copy plans, rounds and records into a folder beside the target, and put that in its place at one stroke."""
    aside = exclusive_directory(target.parent, f".{target.name}")
    try:
        for part in results.parts:
            assert part.file is not None
            plan, own = part.file.path, Workspace(part.file.path.parent.parent).records(part.file.plan_hash)
            for path in (*plan.parent.glob(f"{plan.stem}*.json"), *own.glob("*.parquet")):
                copy = aside / ("plans" if path.suffix == ".json" else f"records/{part.file.plan_hash}") / path.name
                files.replace(copy, path.read_bytes())
        if target.exists():
            shutil.rmtree(target)
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def export(name: str, texts: Sequence[str], desk: Desk) -> int:
    """Write records as one table."""
    config = compose("action/export", texts, desk.conf)
    path = desk.path(need("file", config["file"]))
    kind = one_of("file", path.suffix, FORMATS)
    if path.exists():
        raise UsageError(f"file: expected a new one, received {path.name}, which is there.", "Choose another name.")
    results = select.select(name, {**config, "digest": select.ANY}, desk)
    sources = [_source(part.file.path) for part in results.parts if part.file] or [desk.path(str(config["source"]))]
    table = None if config["table"] == select.ANY else str(config["table"])
    found = frame(sources, table)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.tmp")
    try:
        if kind == ".csv":
            found.to_csv(aside, index=False)
        elif kind == ".json":
            found.to_json(aside, orient="records", indent=1)
        else:
            found.to_parquet(aside, index=False)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    desk.print_line(f"written: {desk.shown(path)}, {len(found)} rows of {len(found.columns)} columns")
    return Exit.OK


def _source(plan: Path) -> Path:
    return Workspace(plan.parent.parent).records(plan.stem)
