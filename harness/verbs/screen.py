"""`screen`: plan a screen, run what is not recorded yet, and say what came out."""

from collections.abc import Sequence

from harness import records, reports, running
from harness.executor import Executor, Places
from harness.selection import Selection
from harness.surroundings import ERROR, NOTHING, OK, Surroundings
from harness.verbs.plan import planned
from harness.workspace import Workspace


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Measure a screen. A second run of the same plan measures nothing and says so."""
    config, plan_file, slots = planned("screen", texts, around)
    workspace = Workspace.under(config.launcher.out, around.repository)
    plan_hash = plan_file.plan_hash
    folders = workspace.plan(plan_hash), workspace.records(plan_hash), workspace.scratch
    places = Places(*folders, config.trace)
    try:
        executor = running.run(
            plan_file, slots, places, config.launcher, around.environ, around.clock, around.print_line
        )
    finally:
        slots.remove()
    return _conclude(executor, workspace, around)


def _conclude(executor: Executor, workspace: Workspace, around: Surroundings) -> int:
    """Print the table and every failure; the exit status says what they amount to."""
    plan_file = executor.plan_file
    reading = records.read(records.record_files(executor.places.records))
    page = reports.page(Selection(plan_file, workspace, reading))
    around.print_line("\n" + reports.body(page))
    running.say_endings(executor, around.print_line)
    if executor.failures:
        return ERROR
    return OK if page.found.comparisons else NOTHING
