"""Makes a plan: exports the trees, asks each what it is, and lets the program say what is run and in which order."""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afdep import Machine
from harness import study
from harness.core import process, trees
from harness.core.codec import decode
from harness.core.identity import EXTERNAL, Identity, Sources, machine_digest
from harness.core.plan import Plan, PlannedArm, Tree
from harness.core.trees import Slots
from harness.errors import TreeError
from harness.study import Asked


@dataclass(frozen=True)
class Wanted:
    """What is to be planned.

    Args:
        study: its name.
        name: of what it measures.
        settings: of the study.
        trees: revisions or `working`.
        arms: whose identities the plan holds.
        machine: the simulated machine that figures come from; None: the one that arms are opened on, if any is.
        trace: file of recorded expert ids, or None.
    """

    study: str
    name: str
    settings: Any
    trees: tuple[str, ...] = (trees.WORKING,)
    arms: tuple[Asked, ...] = ()
    machine: str | None = None
    trace: Path | None = None


@dataclass(frozen=True)
class Planned:
    """A plan with its trees in place, and the files that its processes may load."""

    plan: Plan
    slots: Slots
    sources: Sources


def make(wanted: Wanted, repository: Path, exports: Path, environ: Mapping[str, str]) -> Planned:
    """Plan a study.

    Args:
        wanted: what is planned.
        repository: root of the git repository that revisions are resolved in.
        exports: parent of the directory for the slots.
        environ: where allowed variables are taken from.

    Raises:
        TreeError: a tree that cannot be exported, built or loaded, or trees that no one program can measure.
    """
    resolved = [trees.resolve(repository, name) for name in wanted.trees]
    names = list(dict.fromkeys(resolved))
    owners = [names.index(one) for one in resolved]
    slots = trees.export(repository, names, exports)
    try:
        blocks = tuple(study.program(wanted.study).blocks(wanted.settings, ()))
        backends = sorted({batch.backend for block in blocks for batch in block.batches})
        reports = []
        for tree, name in enumerate(names):
            request = {"study": wanted.study, "backends": backends, "arms": _arms(wanted, owners, tree)}
            reports.append(_ask(slots.path(tree), name, request, environ))
        sources = _sources(names, reports)
        return Planned(_plan(wanted, names, owners, blocks, reports, slots, sources), slots, sources)
    except BaseException:
        slots.remove()
        raise


def ask(study_name: str, slot: Path, backends: Sequence[str], environ: Mapping[str, str]) -> Sources:
    """The files that processes of a study may load from a slot that is in place."""
    report = _ask(slot, "in place", {"study": study_name, "backends": list(backends), "arms": []}, environ)
    return Sources(tuple(report["library"]), tuple(report["measuring"]))


def _arms(wanted: Wanted, owners: Sequence[int], tree: int) -> list[dict[str, Any]]:
    """The arms of a tree, as its probe takes them."""
    own = [one for one in wanted.arms if one.shape is not None and owners[one.tree] == tree]
    return [{"backend": one.backend, "arm": one.name, "shape": dict(one.shape or {})} for one in own]


def _ask(slot: Path, name: str, request: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as start:
        done = subprocess.run(
            process.command("harness.core.probe", json.dumps(request)),
            cwd=start,
            env=process.environment(slot.resolve(), environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    told = [event for line in done.stdout.splitlines() if (event := process.hear(line)) is not None]
    if done.returncode or not told or told[-1]["event"] != process.REPORT:
        said, next_step = process.last_words(done.stderr)
        reason = process.ending(done.returncode, None, said).rstrip(".")
        raise TreeError(
            f"tree {name}: expected it to build and load, received {reason}.",
            next_step or "Look at the whole of what it says: `git checkout` that tree and `python -c 'import afdep'`.",
        )
    return told[-1]


def _sources(names: Sequence[str], reports: Sequence[Mapping[str, Any]]) -> Sources:
    """Files that processes of any of the trees load: the measuring half is one, the library's may differ by tree."""
    measuring = {tuple(report["measuring"]) for report in reports}
    library = sorted({name for report in reports for name in report["library"]})
    if len(measuring) > 1:
        raise TreeError(
            f"trees {', '.join(names)}: expected one harness to measure them alike, received several.",
            "They keep different contracts: measure each against a tree of its own time.",
        )
    return Sources(tuple(library), measuring.pop())


def _plan(
    wanted: Wanted,
    names: Sequence[str],
    owners: Sequence[int],
    blocks: Any,
    reports: Sequence[Mapping[str, Any]],
    slots: Slots,
    sources: Sources,
) -> Plan:
    found = [iter(report["identities"]) for report in reports]
    arms = tuple(
        PlannedArm(
            one.name,
            owners[one.tree],
            one.backend,
            Identity(EXTERNAL, one.name) if one.shape is None else _identity(next(found[owners[one.tree]])),
        )
        for one in wanted.arms
    )
    return Plan(
        study=wanted.study,
        name=wanted.name,
        settings=wanted.settings,
        trees=tuple(
            Tree(
                name,
                tuple(sorted(report["native"].items())),
                sources.library_digest(slots.path(index)),
                report["contract"],
            )
            for index, (name, report) in enumerate(zip(names, reports, strict=True))
        ),
        arms=arms,
        measuring_digest=sources.measuring_digest(slots.path(0)),
        machine_digest=machine_digest(_constants(wanted, slots.path(0) / "conf" / "machine")),
        blocks=blocks,
    )


def _constants(wanted: Wanted, folder: Path) -> Mapping[str, float] | None:
    """Of the simulated machine, which is one in all slots."""
    opened_on = {str(one.shape["machine"]) for one in wanted.arms if one.shape and "machine" in one.shape}
    name = wanted.machine or next(iter(opened_on), None)
    return None if name is None else Machine.load(name, folder).constants()


def _identity(report: Mapping[str, Any]) -> Identity:
    return decode(Identity, {**report, "switches": [list(pair) for pair in report["switches"]]})
