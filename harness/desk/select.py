"""Which plans and which records a command is about."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from afdep import NativeDigest
from harness.core import plan as plans
from harness.core.plan import PlanFile, Workspace
from harness.desk.desk import Desk
from harness.errors import PlanError, ReportError, valid_names
from harness.records import files, table
from harness.records.table import Reading
from harness.report.results import Part, Results
from harness.studies.screen import archived

LATEST, ALL, ANY, OUT = "latest", "all", "any", "out"


def select(study: str, config: Mapping[str, Any], desk: Desk) -> Results:
    """Load what the keys `source`, `plan` and `digest` name.

    Raises:
        ReportError: no such source, no plan of the study there, or not this one.
        DigestError: a digest that is not written as one.
    """
    source = str(config["source"])
    wanted = str(config.get("plan", LATEST))
    path = desk.path(str(config["launcher"]["out"]) if source == OUT else source)
    if not path.exists():
        raise ReportError(
            f"source {source}: expected records, received nothing of that name.",
            "Run the study first, or name a folder or file below records/.",
        )
    digest = str(config.get("digest", ANY))
    if path.is_file() or not (path / "plans").is_dir():
        return Results(study, path.stem, (Part(None, _read(path, digest)),))
    workspace = Workspace(path)
    found, damaged = plan_files(workspace)
    own = [file for file in found if file.plan.study == study]
    chosen = _chosen(own, ALL if source != OUT and wanted == LATEST else wanted, study, workspace)
    name = chosen[0].plan.name if source == OUT else path.name
    return Results(study, name, tuple(part(file, workspace, digest) for file in chosen), damaged)


def part(file: PlanFile, workspace: Workspace, digest: str = ANY) -> Part:
    """A plan with what is recorded of it, by trees of this digest alone where one is named."""
    return Part(file, _read(workspace.records(file.plan_hash), digest))


def _read(path: Path, digest: str) -> Reading:
    found = table.read(table.record_files(path))
    if digest == ANY:
        return found
    wanted = str(NativeDigest.parse(digest))
    return replace(found, rows=tuple(row for row in found.rows if row.get("native_digest") == wanted))


def plan_files(workspace: Workspace) -> tuple[list[PlanFile], dict[str, str]]:
    """Every plan of a folder, the oldest first, and those that cannot be read with their reasons."""
    found: list[PlanFile] = []
    damaged: dict[str, str] = {}
    for path in sorted(workspace.plans.glob("p*.json")):
        if path.name.count(".") > 1:  # a round of a plan
            continue
        try:
            file = load(path)
            list(file.rounds())  # each can be read
            found.append(file)
        except PlanError as error:
            damaged[path.name] = error.problem
    return sorted(found, key=lambda one: (one.created, one.plan_hash)), damaged


def load(path: Path) -> PlanFile:
    """A plan file of any format.

    Raises:
        PlanError: it cannot be read.
    """
    try:
        version = json.loads(path.read_text(encoding="utf-8"))["plan"].get("version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        version = None
    return plans.load(path, read=archived.read, planned_format=1) if version == 1 else plans.load(path)


def use(workspace: Workspace, file: PlanFile) -> None:
    """Make a plan the latest one of its study: the one that was worked on last."""
    files.replace(_pointer(workspace, file.plan.study), file.plan_hash.encode())


def _pointer(workspace: Workspace, study: str) -> Path:
    return workspace.plans / f".latest-{study}"


def _chosen(own: list[PlanFile], wanted: str, study: str, workspace: Workspace) -> list[PlanFile]:
    by_hash = {file.plan_hash: file for file in own}
    if not own:
        raise ReportError(
            f"plans of {study} under {workspace.folder.name}: expected at least one, received none.",
            f"Run `afdep-bench {study}` first.",
        )
    if wanted == ALL:
        return own
    if wanted == LATEST:
        pointer = _pointer(workspace, study)
        used = pointer.read_text(encoding="utf-8").strip() if pointer.exists() else ""
        return [by_hash.get(used, own[-1])]
    if wanted not in by_hash:
        names = [LATEST, ALL, *by_hash]
        raise ReportError(f"plan: expected one that is here, received {wanted!r}.", valid_names(wanted, names))
    return [by_hash[wanted]]
