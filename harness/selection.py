"""Which plan and which records a report is about."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import plan as plans
from harness import records, sections
from harness.errors import ReportError, valid_names
from harness.plan import PlanFile
from harness.records import Reading, Record
from harness.words import as_digest, as_word
from harness.workspace import REPOSITORY, Workspace

LATEST, ANY, OUT = "latest", "any", "out"


@dataclass(frozen=True)
class Selection:
    """A plan with its readable records.

    Args:
        plan_file: the plan.
        workspace: where it was found.
        reading: its records, after the filter by digest.
    """

    plan_file: PlanFile
    workspace: Workspace
    reading: Reading

    @property
    def record_files(self) -> list[Path]:
        return records.record_files(self.workspace.records(self.plan_file.plan_hash))


def select(config: Mapping[str, Any], repository: Path = REPOSITORY) -> Selection:
    """Read the keys `plan`, `screen_name`, `digest` and `source` of a verb and load what they name.

    Raises:
        ReportError: no plan, or not this one.
        ValueReadError: a digest that is not written as one.
    """
    source = as_word("source", config["source"], "a folder or out")
    out = sections.launcher(config).out if source == OUT else source
    workspace = Workspace.under(out, repository)
    files = _of_screen(workspace, as_word("screen_name", config["screen_name"], "the name of a screen or any"))
    plan_file = _choose(files, as_word("plan", config["plan"], "a plan hash or latest"))
    reading = records.read(records.record_files(workspace.records(plan_file.plan_hash)))
    return Selection(plan_file, workspace, _of_digest(reading, config["digest"]))


def _of_screen(workspace: Workspace, name: str) -> dict[str, PlanFile]:
    files = [plans.load(path) for path in workspace.plan_files()]
    kept = {one.plan_hash: one for one in files if name in (ANY, one.plan.screen)}
    if not kept:
        known = sorted({one.plan.screen for one in files})
        raise ReportError(f"screen_name: expected one with a plan here, received {name!r}.", valid_names(name, known))
    return kept


def _choose(files: Mapping[str, PlanFile], name: str) -> PlanFile:
    if name == LATEST:
        return max(files.values(), key=lambda one: (one.created, one.plan_hash))
    if name not in files:
        raise ReportError(f"plan: expected one that is here, received {name!r}.", valid_names(name, [LATEST, *files]))
    return files[name]


def _of_digest(reading: Reading, digest: object) -> Reading:
    if digest == ANY:
        return reading
    wanted = as_digest(digest)
    kept: tuple[Record, ...] = tuple(record for record in reading.records if record.native_digest == wanted)
    return Reading(kept, reading.quarantined, reading.num_files)
