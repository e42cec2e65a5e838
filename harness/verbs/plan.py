"""`plan`: plan a screen, keep the plan file, and run nothing."""

import shlex
from collections.abc import Sequence

from harness import plan as plans
from harness import planning
from harness.compose import compose, load_options
from harness.screen_config import ScreenConfig
from harness.plan import PlanFile
from harness.surroundings import OK, Surroundings
from harness.trees import Slots
from harness.validate import screen_config
from harness.workspace import Workspace, displayed


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Keep the plan of a screen."""
    config, plan_file, slots = planned("plan", texts, around)
    slots.remove()
    plan = plan_file.plan
    path = Workspace.under(config.launcher.out, around.repository).plan(plan_file.plan_hash)
    around.print_line(f"{len(plan.processes)} processes of {len(plan.cells)} cells, arms {_arms(plan_file)}")
    around.print_line(f"written: {displayed(path, around.repository)}")
    return OK


def planned(verb: str, texts: Sequence[str], around: Surroundings) -> tuple[ScreenConfig, PlanFile, Slots]:
    """The screen that the words after a verb say, its kept plan, and its trees in place."""
    conf_dir = around.repository / "conf"
    config = screen_config(compose(verb, texts, conf_dir), load_options("routing", conf_dir), around.repository)
    workspace = Workspace.under(config.launcher.out, around.repository)
    around.print_line(f"screen {config.name}: exporting, building and asking each tree what it is")
    plan, slots = planning.make(config, around.repository, workspace.trees, around.environ)
    try:
        command = shlex.join(["python", "-m", "harness", verb, *texts])
        created = around.now().isoformat(timespec="seconds")
        return config, plans.save(workspace.plans, plan, created, command), slots
    except BaseException:
        slots.remove()
        raise


def _arms(plan_file: PlanFile) -> str:
    return ", ".join(f"{arm.name} {arm.identity.digest}" for arm in plan_file.plan.arms)
