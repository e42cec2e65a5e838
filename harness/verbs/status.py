"""`status`: every plan under the out folder and how much of it is recorded."""

from collections import Counter
from collections.abc import Sequence

from harness import plan as plans
from harness import records, sections, tables
from harness.comparison import findings
from harness.compose import compose
from harness.plan import PlanFile
from harness.surroundings import OK, Surroundings
from harness.workspace import Workspace

STATES = ("void", "failed", "missing")


def run(texts: Sequence[str], around: Surroundings) -> int:
    """One line per plan, oldest first."""
    config = compose("status", texts, around.repository / "conf")
    workspace = Workspace.under(sections.launcher(config).out, around.repository)
    files = sorted(map(plans.load, workspace.plan_files()), key=lambda one: (one.created, one.plan_hash))
    lines = [_line(file, workspace) for file in files]
    header = ["plan", "created", "screen", "cells", "ok", *STATES, "damaged files"]
    around.print_line(tables.markdown(header, lines, frozenset(range(3, len(header)))))
    return OK


def _line(file: PlanFile, workspace: Workspace) -> list[str]:
    reading = records.read(records.record_files(workspace.records(file.plan_hash)))
    found = findings(file.plan, reading.records)
    states = Counter(one.status for one in found.absences)
    counts = [
        found.num_ok + len(found.absences),
        found.num_ok,
        *(states[state] for state in STATES),
        len(reading.quarantined),
    ]
    return [file.plan_hash, file.created, file.plan.screen, *map(str, counts)]
