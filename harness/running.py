"""Runs what a plan still lacks, and says what came of it; for the verb `screen` and for a node without Hydra alike."""

from collections.abc import Callable, Mapping, Sequence

from harness.screen_config import Launcher
from harness.executor import Executor, Failure, Places
from harness.plan import Plan, PlanFile
from harness.progress import Progress
from harness.trees import Slots

Say = Callable[[str], None]


def run(
    plan_file: PlanFile,
    slots: Slots,
    places: Places,
    launcher: Launcher,
    environ: Mapping[str, str],
    clock: Callable[[], float],
    say: Say,
) -> Executor:
    """Run every process of the plan whose cells are not all recorded as ok.

    Args:
        plan_file: the plan.
        slots: its trees, in place.
        places: where the run reads and writes.
        launcher: processes at a time, and their time limit.
        environ: where allowed variables are taken from.
        clock: seconds since any fixed moment.
        say: where lines go.
    """
    plan = plan_file.plan
    progress = Progress(plan, 0, clock, say)
    executor = Executor(plan_file, slots, places, launcher, progress.listen, environ)
    remaining = executor.remaining()
    progress.total = len(remaining) * len(plan.cells)
    say(f"plan {plan.plan_hash}: {len(plan.processes)} processes of {len(plan.cells)} cells, {len(remaining)} to run")
    reason = plan.shared_identity()
    if reason is not None:
        executor.void_all(reason)
    elif remaining:
        executor.run(remaining)
    else:
        say("nothing to measure: every cell of this plan is recorded")
    return executor


def say_endings(executor: Executor, say: Say) -> None:
    """Say which processes ended badly, and where what they said lies."""
    plan = executor.plan_file.plan
    _say("warning, recorded in full before it ended", executor.late_endings, plan, say)
    _say("failed", executor.failures, plan, say)


def _say(title: str, endings: Sequence[Failure], plan: Plan, say: Say) -> None:
    for one in endings:
        row, arm = plan.rows[one.process.row], plan.arms[one.process.arm].name
        say(f"{title}: {row.layout} {row.hidden} {arm}: {one.reason}")
        say(f"  record {one.record_file}, all of stderr in {one.stderr}")
