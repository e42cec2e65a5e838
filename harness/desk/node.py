"""`launcher=node`: a plan with all that an offline x86-64 node needs, added to a bundle with one command for all.

The node needs Python 3.11 or newer with numpy and pyarrow, and torch for GPUs; nothing is compiled there.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from afdep import BuildError
from afdep.build import SIDECAR
from harness import study
from harness.core import process, trees
from harness.core.codec import encode, short_hash
from harness.core.identity import Sources
from harness.core.node import RUN, SLOTS, Entry, entries
from harness.core.plan import INDEX, PlanFile, Workspace
from harness.core.trees import Slots
from harness.desk.desk import Desk, Launcher, counted
from harness.errors import BundleError, Exit, UsageError
from harness.records import files

PROVIDED = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so[.0-9]*")
"""Libraries that every node has; the driver's own is opened when the first GPU is asked for."""

_COMMAND = """#!/bin/sh
# ./run [NAME ...]: run these plans of bundle.json, or all of them, as far as out/ has no records of them.
cd "$(dirname "$0")" || exit 4
python="${{PYTHON:-python3}}"
if ! "$python" -P -c 'import numpy, pyarrow' 2>/dev/null; then
    printf '%s: expected Python 3.11 or newer with numpy and pyarrow, received another.\n%s\n' \
        "$python" 'Write PYTHON=/path/to/python3 ./run.' >&2
    exit 4
fi
PYTHONPATH="$PWD/{slots}/slot0" exec "$python" -P -m harness.core.node "$@"
"""
_START_S = 60
"""What a plan may take beside its batches."""


def add(file: PlanFile, slots: Slots, sources: Sources, launcher: Launcher, desk: Desk) -> int:
    """Add a plan to the bundle of the launcher's `to`, which is made if it is not there.

    Raises:
        UsageError: something else is there.
        BundleError: recorded expert ids, or a library that a node may lack a part of.
        BuildError: a library does not build.
    """
    folder = desk.path(launcher.to)
    if folder.exists() and not (folder / INDEX).is_file():
        raise UsageError(
            f"launcher.to: expected no folder or a bundle, received {folder.name}, which is something else.",
            "Nothing in it is touched: choose another.",
        )
    if "trace@" in json.dumps(encode(file.plan.settings)):
        raise BundleError(f"plan {file.plan_hash}: expected generated routings, received recorded ones.")
    if not folder.exists():
        _list(folder, [])  # of a folder without it nobody knows whose it is
    known = entries(folder)
    if any(one.plan == file.plan_hash for one in known):
        desk.print_line(f"{desk.shown(folder)} has plan {file.plan_hash} already")
        return Exit.OK
    entry = _entry(file, slots, sources, launcher, [one.name for one in known])
    _put(file, slots, folder / SLOTS / entry.slots)
    files.replace(Workspace(folder).plans / file.path.name, file.path.read_bytes())
    everything = [*known, entry]
    command = files.replace(folder / RUN, _COMMAND.format(slots=f"{SLOTS}/{everything[0].slots}").encode())
    command.chmod(0o755)
    _list(folder, everything)
    total = sum(one.expected_s for one in everything)
    minutes = counted(round(total / 60), "minute")
    desk.print_line(f"written: {desk.shown(folder)}, {counted(len(everything), 'plan')}, about {minutes}")
    desk.print_line(f"on the node: ./{RUN} {entry.name}")
    return Exit.OK


def _list(folder: Path, plans: list[Entry]) -> None:
    files.replace(folder / INDEX, (json.dumps({"entries": [encode(one) for one in plans]}, indent=1) + "\n").encode())


def _entry(file: PlanFile, slots: Slots, sources: Sources, launcher: Launcher, taken: list[str]) -> Entry:
    plan = file.plan
    names = (plan.name, *(f"{plan.name}-{number}" for number in range(2, len(taken) + 3)))
    expected_s = sum(batch.expected_s for batch in plan.batches)
    identity = [encode(plan.trees), plan.measuring_digest]
    return Entry(
        name=next(name for name in names if name not in taken),
        plan=file.plan_hash,
        slots=short_hash("s", identity),
        num_trees=slots.num_trees,
        sources=sources,
        expected_s=expected_s,
        limit_s=1.5 * expected_s + _START_S,
        jobs=launcher.jobs,
        timeout_s=float(launcher.timeout_s),
    )


def _put(file: PlanFile, slots: Slots, place: Path) -> None:
    """Put trees with all that is built of them into a bundle, at one stroke; where they are, what this plan adds."""
    if place.exists():
        _carry_edited(file, Slots(place, slots.num_trees))
        return
    aside = place.with_name(f".{place.name}")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        shutil.copytree(slots.root, aside)
        own = Slots(aside, slots.num_trees)
        if any(batch.backend == "cuda" for batch in file.plan.batches):
            for index in range(slots.num_trees):
                _copy(*_built_by(own.path(index).resolve()))
        _carry_edited(file, own)
        aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _carry_edited(file: PlanFile, slots: Slots) -> None:
    """Libraries of edited trees, and whatever else the study builds."""
    batches = [batch for batch in file.plan.batches if batch.backend == "cuda"]
    wanted = {(batch.tree, edits) for batch in batches for edits in batch.built}
    for tree, edits in sorted(wanted, key=str):
        slot = slots.path(tree)
        _copy(Path(trees.library(slot, edits).path), trees.carried(slot, edits))
    program: Any = study.program(file.plan.study)
    if hasattr(program, "carry"):
        program.carry(slots.path(0))


def _built_by(slot: Path) -> tuple[Path, Path]:
    """The CUDA library that a tree builds of itself, and where it looks for it on a machine without a compiler."""
    asked = "from afdep import build; print(build.build_cuda(), build.carried(), sep=chr(10))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", asked],
        env=process.environment(slot, os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(
            f"CUDA library: expected it to build, received {process.last_words(done.stderr)[0]}.",
            "A bundle is made where nvcc is.",
        )
    built, carried = done.stdout.splitlines()
    return Path(built), Path(carried)


def _copy(built: Path, carried: Path) -> None:
    """Copy a library with its sidecar, unless it is there."""
    if carried.exists():
        return
    check_self_contained(built)
    carried.parent.mkdir(parents=True, exist_ok=True)
    for path in (built, built.with_name(SIDECAR)):
        if path.exists():
            shutil.copyfile(path, carried.with_name(path.name))


def check_self_contained(library: Path) -> None:
    """Refuse a library that a node may lack a part of.

    Raises:
        BundleError: it needs another library than those PROVIDED.
    """
    said = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=False).stdout
    needed = [Path(line.split()[0]).name for line in said.splitlines() if line.strip()]
    foreign = [name for name in needed if not PROVIDED.fullmatch(name) and name != "statically"]
    if foreign or not needed:
        raise BundleError(f"{library.name}: expected to need no other library, received {foreign or 'no answer'}.")
