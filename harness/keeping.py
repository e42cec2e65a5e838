"""Keeps the records behind a figure: a plan and its record files, copied into a folder of the repository."""

import shutil
from pathlib import Path

from harness.selection import Selection
from harness.workspace import Workspace


def keep(selection: Selection, folder: Path) -> Path:
    """Copy a plan and its readable record files into `folder`, laid out like an out folder.

    A file that is there already is left as it is; nothing is deleted.

    Returns:
        The folder of the record files.
    """
    target = Workspace(folder)
    plan_hash = selection.plan_file.plan_hash
    damaged = {one.name for one in selection.reading.quarantined}
    pairs = [(selection.workspace.plan(plan_hash), target.plan(plan_hash))]
    pairs += [
        (path, target.records(plan_hash) / path.name) for path in selection.record_files if path.name not in damaged
    ]
    for source, copy in pairs:
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists():
            shutil.copyfile(source, copy)
    return target.records(plan_hash)


def keep_alone(selection: Selection, folder: Path) -> Path:
    """As `keep`, and then remove every other plan of `folder` with its records: the figures have one source.

    Returns:
        The folder of the record files.
    """
    kept = keep(selection, folder)
    target, plan_hash = Workspace(folder), selection.plan_file.plan_hash
    for plan in target.plans.glob("*.json"):
        if plan.stem != plan_hash:
            plan.unlink()
    for records in kept.parent.iterdir():
        if records != kept:
            shutil.rmtree(records)
    return kept
