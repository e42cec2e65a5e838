"""A folder that runs plans on an offline x86-64 node: trees, built libraries, plans and one command.

The node needs Python 3.11 or newer with numpy and pyarrow, and torch to measure GPUs; nothing is compiled there.
"""

import dataclasses
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from afdep import build
from harness import plan as plans
from harness import trees
from harness.calibrate import program as probes
from harness.config import TRACE, Launcher
from harness.digests import harness_digest, source_digest
from harness.errors import BundleError
from harness.plan import Plan
from harness.trees import Slots

LAUNCHER, PLANS, SLOTS, OUT, COMMAND = "launcher.json", "plans", "slots", "out", "run"
"""What lies in a bundle: the launcher's settings, plan files, trees, what a run writes, and the command."""

CALIBRATE = "calibrate"
"""The other command of a bundle, which measures constants of the simulated machine."""

PROVIDED = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so[.0-9]*")
"""Libraries that every node has; the driver's own is opened when the first GPU is asked for."""

_RUN = """#!/bin/sh
# ./run [plans/PLAN.json ...]: measure what these plans, or all of this folder's, still lack. Records go to out/.
cd "$(dirname "$0")" || exit 4
PYTHONPATH="$PWD/slots/slot0" exec "${PYTHON:-python3}" -P -m harness.offline "$@"
"""

_CALIBRATE = """#!/bin/sh
# ./calibrate: measure constants of the simulated machine on two GPUs. Readings go to out/calibrations/.
cd "$(dirname "$0")" || exit 4
PYTHONPATH="$PWD/slots/slot0" exec "${PYTHON:-python3}" -P -m harness.calibrate.offline out/calibrations
"""


def make(paths: Sequence[Path], launcher: Launcher, repository: Path, building: Path) -> None:
    """Make a bundle of plans.

    Args:
        paths: the plan files, all of the same trees.
        launcher: its settings there.
        repository: root of the git repository that the trees are exported from.
        building: a folder of its own that becomes the bundle.

    Raises:
        BundleError: plans of several trees or of recorded ids, sources that have changed since, or a library that
            needs others.
        BuildError: the CUDA library does not build.
    """
    planned = [plans.load(path).plan for path in paths]
    first = planned[0]
    slots = trees.export(repository, [tree.name for tree in first.trees], building)
    slots.root.rename(building / SLOTS)
    slots = Slots(building / SLOTS, slots.num_trees)
    for plan in planned:
        _check(plan, first, slots)
    if any(plan.backend.name == "cuda" for plan in planned):
        for index in range(slots.num_trees):
            _carry(slots.path(index))
    _write(paths, launcher, building)


def _check(plan: Plan, first: Plan, slots: Slots) -> None:
    recorded = [row.routing for row in plan.rows if row.routing.startswith(TRACE)]
    if recorded:
        raise BundleError(f"plan {plan.plan_hash}: expected generated routings, received {recorded[0]}.")
    if plan.trees != first.trees:
        raise BundleError(f"plan {plan.plan_hash}: expected the trees of plan {first.plan_hash}, received others.")
    for index, tree in enumerate(plan.trees):
        slot = slots.path(index)
        found = source_digest(slot), harness_digest(slot)
        if found != (tree.source_digest, plan.harness_digest):
            planned = f"{tree.source_digest} {plan.harness_digest}"
            raise BundleError(f"plan {plan.plan_hash}: expected sources {planned}, received {' '.join(found)}.")


def _carry(slot: Path) -> None:
    carry_library(slot)
    carry_probes(slot)


def carry_library(slot: Path) -> None:
    """Put the built library of a tree into it, where `afdep.build` finds it.

    Raises:
        BuildError: it does not build.
        BundleError: it needs a library that a node may lack.
    """
    check_self_contained(build.carry(slot))


def carry_probes(slot: Path) -> None:
    """Put the built program of the probes into a tree, where `harness.calibrate.program` finds it.

    Raises:
        BuildError: it does not build.
        BundleError: it needs a library that a node may lack.
    """
    _put(probes.build(slot), probes.carried(slot))


def _put(built: Path, carried: Path) -> None:
    check_self_contained(built)
    carried.parent.mkdir(parents=True)
    shutil.copy(built, carried)


def check_self_contained(library: Path) -> None:
    """Refuse a library that a node may lack a part of.

    Raises:
        BundleError: it needs another library than those PROVIDED.
    """
    said = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=False).stdout
    needed = [Path(line.split()[0]).name for line in said.splitlines() if line.strip()]
    foreign = [name for name in needed if not PROVIDED.fullmatch(name)]
    if foreign or not needed:
        raise BundleError(f"{library.name}: expected to need no other library, received {foreign or 'no answer'}.")


def _write(paths: Sequence[Path], launcher: Launcher, building: Path) -> None:
    (building / PLANS).mkdir()
    for path in paths:
        shutil.copyfile(path, building / PLANS / path.name)
    settings = dataclasses.asdict(dataclasses.replace(launcher, out=OUT))
    (building / LAUNCHER).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    write_commands(building)


def write_commands(building: Path, names: Sequence[str] = (COMMAND, CALIBRATE)) -> None:
    """Write commands of a bundle."""
    for name in names:
        command = building / name
        command.write_text({COMMAND: _RUN, CALIBRATE: _CALIBRATE}[name], encoding="utf-8")
        command.chmod(0o755)
