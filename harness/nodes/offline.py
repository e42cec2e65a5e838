"""One stage of a bundle on its node: `python -P -m harness.nodes.offline NAME` in its folder, as `./stage` does.

It needs neither Hydra nor git nor a compiler. What is recorded in the folder is not measured again.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from harness import plan as plans
from harness import running
from harness.bundle import LAUNCHER, OUT, PLANS, SLOTS
from harness.screen_config import Launcher
from harness.decode import decode
from harness.errors import HarnessError
from harness.executor import Executor, Places
from harness.leaving import leave
from harness.nodes import stages
from harness.nodes.stages import Stage
from harness.progress import Progress
from harness.trees import Slots
from harness.validation.on_gpus import Gpus, found
from harness.workspace import Workspace

TRIALS = "validation.json"
"""The file of a bundle that holds its trials."""

_OK, _FAILED = 0, 4


def main(words: Sequence[str], folder: Path, gpus: Gpus | str) -> int:
    """Run the stage of this name.

    Args:
        words: the name.
        folder: of the bundle.
        gpus: those of this machine, or why there are none.

    Returns:
        0 where every process of it is recorded, 4 where one failed; a stage of trials ends as `validate` does.

    Raises:
        PlacementError: the machine has fewer GPUs than the stage needs.
    """
    stage = stages.named(stages.read(folder / stages.TABLE), words[0])
    if isinstance(gpus, str):
        _say(gpus)
    stages.refuse_fewer(stage, 0 if isinstance(gpus, str) else gpus.count)
    if stage.plan == stages.VALIDATION:
        _play(folder, stage)
    return _measure(folder, stage)


def _play(folder: Path, stage: Stage) -> NoReturn:
    """Become the player of trials, so that a signal to end reaches it."""
    told = [str(folder / TRIALS), str(folder / OUT / stages.VALIDATION), str(stage.gpus)]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "harness.validation.offline", *told])


def _measure(folder: Path, stage: Stage) -> int:
    """Run what the records lack of a stage's part of its plan, in the plan's order."""
    launcher = decode(Launcher, json.loads((folder / LAUNCHER).read_text(encoding="utf-8")))
    path = folder / PLANS / f"{stage.plan}.json"
    plan_file = plans.load(path)
    workspace = Workspace((folder / launcher.out).resolve())
    places = Places(path, workspace.records(plan_file.plan_hash), workspace.scratch)
    slots = Slots(folder / SLOTS, len(plan_file.plan.trees))
    progress = Progress(plan_file.plan, 0, time.monotonic, _say)
    executor = Executor(plan_file, slots, places, launcher, progress.listen, os.environ)
    wanted = [one for one in executor.remaining() if stage.takes(one)]
    progress.total = len(wanted) * len(plan_file.plan.cells)
    _say(f"stage {stage.name}: {len(wanted)} processes, about {stage.expected_s} s, at the most {stage.limit_s} s")
    executor.run(wanted)
    running.say_endings(executor, _say)
    return _FAILED if executor.failures else _OK


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    try:
        leave(main(sys.argv[1:], Path.cwd(), found()))
    except HarnessError as error:
        print(error, file=sys.stderr)
        leave(_FAILED)
