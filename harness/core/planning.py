"""Makes a plan: exports the trees, asks each what it is, and lets the program say what is run and in which order.

A tree is asked in a fresh process, which builds it on the way: `python -P -m harness.core.planning REQUEST` prints one
JSON line: native digests, the identity of each arm, and the Python files that driver, workers and ranks of the study
load. REQUEST is JSON with `study`, `backends` and `arms`, each an arm with its backend and the shape of a World.
Packages that this machine lacks are stood in for there, so that what is loaded does not depend on them: a plan for GPUs
can be made where there is no torch.
"""

import importlib
import importlib.abc
import importlib.machinery
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import afdep
from harness import study
from harness.core import process, trees, worker
from harness.core.codec import short_hash
from harness.core.identity import EXTERNAL, Identity, Sources, loaded
from harness.core.plan import Plan, PlannedArm, Tree
from harness.core.trees import Slots
from harness.errors import TreeError
from harness.study import Asked

OPTIONAL = ("torch", "deep_ep")
_DRIVER = ("harness.core.executor", "harness.ranks.contract")


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
    program: Any = study.program(wanted.study)
    blocks = tuple(program.blocks(wanted.settings, ()))
    resolved = [trees.resolve(repository, name) for name in wanted.trees]
    names = list(dict.fromkeys(resolved))
    owners = [names.index(one) for one in resolved]
    slots = trees.export(repository, names, exports, getattr(program, "EXPORTED", ()))
    try:
        backends = sorted({batch.backend for block in blocks for batch in block.batches})
        reports = []
        for tree, name in enumerate(names):
            own = [one for one in wanted.arms if one.shape is not None and owners[one.tree] == tree]
            arms = [{"backend": one.backend, "arm": one.name, "shape": dict(one.shape or {})} for one in own]
            request = {"study": wanted.study, "backends": backends, "arms": arms}
            reports.append(_ask(slots.path(tree), name, request, environ))
        sources = _sources(names, reports)
        return Planned(_plan(wanted, names, owners, blocks, reports, slots, sources), slots, sources)
    except BaseException:
        slots.remove()
        raise


def _ask(slot: Path, name: str, request: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as start:
        done = subprocess.run(
            process.command("harness.core.planning", json.dumps(request)),
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
    sys.stderr.write(done.stderr)  # what it warns of
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
            Identity(EXTERNAL, one.name) if one.shape is None else Identity.from_report(next(found[owners[one.tree]])),
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
        machine_digest=_machine_digest(wanted, slots.path(0) / "conf" / "machine"),
        blocks=blocks,
    )


def _machine_digest(wanted: Wanted, folder: Path) -> str | None:
    """Of the constants of the simulated machine, whatever is said of them; it is one in all slots, or there is none."""
    opened_on = {str(one.shape["machine"]) for one in wanted.arms if one.shape and "machine" in one.shape}
    name = wanted.machine or next(iter(opened_on), None)
    return None if name is None else short_hash("k", dict(afdep.Machine.load(name, folder).constants()))


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of optional packages that are not installed, all of whose names are there and mean nothing."""

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        ours = name.partition(".")[0] in OPTIONAL
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return MagicMock(name=spec.name, __path__=[], __spec__=spec)

    def exec_module(self, module: ModuleType) -> None:
        return None


def describe(request: dict[str, Any]) -> dict[str, Any]:
    """What the loaded tree is."""
    sys.meta_path.append(_Absent())  # behind all others: what is installed is taken as it is
    program: Any = study.program(request["study"])
    wanted = [module for backend in request["backends"] for module in worker.backends(program, backend)]
    for module in (*_DRIVER, *wanted):
        importlib.import_module(module)
    contract = importlib.import_module("harness.ranks.contract")
    for backend in request["backends"]:
        contract.load(backend)
    library, own = (Path(str(one.__file__)).resolve().parents[1] for one in (afdep, study))
    more = [path for part in getattr(program, "EXPORTED", ()) for path in (own / part, *(own / part).rglob("*.py"))]
    files = (path.relative_to(own).as_posix() for path in more if path.is_file())
    return {
        "contract": contract.number(),
        "native": {backend: contract.native_digest(backend) for backend in request["backends"]},
        "identities": [vars(Identity.from_report(contract.identity(**one))) for one in request["arms"]],
        "library": loaded("afdep", library),
        "measuring": [*loaded("harness", own), *files],
    }


if __name__ == "__main__":
    mouth = process.Mouth()
    mouth.say(process.REPORT, **describe(json.loads(sys.argv[1])))
    process.leave(0)
