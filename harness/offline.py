"""Runs the plans of a bundle: `python -P -m harness.offline [PLAN.json ...]` in its folder, as its command `run` does.

It needs neither Hydra nor git nor a compiler. What is recorded is not measured again, so a run that was cut short goes
on where it ended.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness import plan as plans
from harness import running
from harness.bundle import LAUNCHER, PLANS, SLOTS
from harness.screen_config import Launcher
from harness.decode import decode
from harness.digests import source_digest
from harness.errors import HarnessError
from harness.executor import Executor, Places
from harness.leaving import leave
from harness.plan import Plan
from harness.surroundings import ERROR, NOTHING, OK
from harness.trees import Slots
from harness.workspace import Workspace


def main(words: Sequence[str], folder: Path) -> int:
    """Run plan files, or all plans of the bundle in the order they were made.

    Returns:
        0 where a cell of them is recorded as ok and none failed, 3 where none is, 4 where one failed.
    """
    launcher = decode(Launcher, json.loads((folder / LAUNCHER).read_text(encoding="utf-8")))
    paths = [Path(word).resolve() for word in words] or _in_order(folder / PLANS)
    executors = []
    for number, path in enumerate(paths, 1):
        _say(f"plan {number} of {len(paths)}")
        executors.append(_run(path, launcher, folder))
    if any(one.failures for one in executors):
        return ERROR
    return OK if any(one.has_figures() for one in executors) else NOTHING


def _in_order(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"), key=lambda path: (plans.load(path).created, path.name))


def _run(path: Path, launcher: Launcher, folder: Path) -> Executor:
    plan_file = plans.load(path)
    workspace = Workspace((folder / launcher.out).resolve())
    places = Places(path, workspace.records(plan_file.plan_hash), workspace.scratch)
    slots = Slots(folder / SLOTS, len(plan_file.plan.trees))
    _straighten(plan_file.plan, slots)
    executor = running.run(plan_file, slots, places, launcher, os.environ, time.monotonic, _say)
    _straighten(plan_file.plan, slots)
    running.say_endings(executor, _say)
    return executor


def _straighten(plan: Plan, slots: Slots) -> None:
    """Bring trees back into their slots that a run left changed about."""
    if slots.num_trees == 2 and source_digest(slots.path(0)) == plan.trees[1].source_digest:
        slots.swap()


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    try:
        leave(main(sys.argv[1:], Path.cwd()))
    except HarnessError as error:
        print(error, file=sys.stderr)
        leave(ERROR)
