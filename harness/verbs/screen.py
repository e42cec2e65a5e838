"""`screen`: plan a screen, run what is not recorded yet, and say what came out."""

import shlex
from collections.abc import Sequence

from harness import plan as plans
from harness import planning, records, reports
from harness.compose import compose, load_options
from harness.config import ScreenConfig
from harness.executor import Executor, Failure, Places
from harness.plan import Plan, PlanFile
from harness.progress import Progress
from harness.selection import Selection
from harness.surroundings import ERROR, NOTHING, OK, Surroundings
from harness.trees import Slots
from harness.validate import screen_config
from harness.workspace import Workspace


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Measure a screen. A second run of the same plan measures nothing and says so."""
    conf_dir = around.repository / "conf"
    routings = load_options("routing", conf_dir)
    config = screen_config(compose("screen", texts, conf_dir), routings, around.repository)
    workspace = Workspace.under(config.launcher.out, around.repository)
    around.print_line(f"screen {config.name}: exporting, building and asking each tree what it is")
    plan, slots = planning.make(config, around.repository, workspace.trees, around.environ)
    try:
        command = shlex.join(["python", "-m", "harness", "screen", *texts])
        created = around.now().isoformat(timespec="seconds")
        plan_file = plans.save(workspace.plans, plan, created, command)
        executor = _execute(config, plan_file, slots, workspace, around)
    finally:
        slots.remove()
    return _conclude(executor, workspace, around)


def _execute(
    config: ScreenConfig, plan_file: PlanFile, slots: Slots, workspace: Workspace, around: Surroundings
) -> Executor:
    plan = plan_file.plan
    folders = workspace.plan(plan.plan_hash), workspace.records(plan.plan_hash), workspace.scratch
    places = Places(*folders, config.trace)
    progress = Progress(plan, 0, around.clock, around.print_line)
    executor = Executor(plan_file, slots, places, config.launcher, progress.listen, around.environ)
    remaining = executor.remaining()
    progress.total = len(remaining) * len(plan.cells)
    around.print_line(
        f"plan {plan.plan_hash}: {len(plan.processes)} processes of {len(plan.cells)} cells, {len(remaining)} to run"
    )
    reason = plan.shared_identity()
    if reason is not None:
        executor.void_all(reason)
    elif remaining:
        executor.run(remaining)
    else:
        around.print_line("nothing to measure: every cell of this plan is recorded")
    return executor


def _conclude(executor: Executor, workspace: Workspace, around: Surroundings) -> int:
    """Print the table and every failure; the exit status says what they amount to."""
    plan_file = executor.plan_file
    reading = records.read(records.record_files(executor.places.records))
    page = reports.page(Selection(plan_file, workspace, reading))
    around.print_line("\n" + reports.body(page))
    _print_endings("warning, recorded in full before it ended", executor.late_endings, plan_file.plan, around)
    _print_endings("failed", executor.failures, plan_file.plan, around)
    if executor.failures:
        return ERROR
    return OK if page.found.comparisons else NOTHING


def _print_endings(title: str, endings: Sequence[Failure], plan: Plan, around: Surroundings) -> None:
    for one in endings:
        row, arm = plan.rows[one.process.row], plan.arms[one.process.arm].name
        around.print_line(f"{title}: {row.layout} {row.hidden} {arm}: {one.reason}")
        around.print_line(f"  record {one.record_file}, all of stderr in {one.stderr}")
