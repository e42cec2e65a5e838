"""What decides a figure is in the plan's hash, and nothing else is: file edited x study x backend -> changed or not."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from afdep.digest import native_digest
from harness.core import planning, trees
from harness.core.trees import Slots
from harness.desk.desk import real
from harness.desk.run import asked

ROOT = Path(__file__).resolve().parents[2]
DESK = real()
ASK = planning._ask
MACHINE = "h200-nvlink"
ON = {"sim": f"backend.machine={MACHINE}", "cuda": "backend=cuda"}
ASKED = (
    ("screen", "sim"),
    ("screen", "cuda"),
    ("empty-exchange", "sim"),
    ("empty-exchange", "cuda"),
)

ALL = set(ASKED)
SIM, CUDA = ({one for one in ALL if one[1] == backend} for backend in ("sim", "cuda"))
SCREEN = {one for one in ALL if one[0] == "screen"}
EMPTY = {one for one in ALL if one[0] == "empty-exchange"}
NONE: set[tuple[str, str]] = set()

TABLE = {
    # what reports, commands and archives are made of
    "harness/report/page.py": NONE,
    "harness/report/published.py": NONE,
    "harness/studies/screen/report.py": NONE,
    "harness/studies/screen/plots.py": NONE,
    "harness/studies/empty_exchange/report.py": NONE,
    "harness/desk/run.py": NONE,
    "harness/cli.py": NONE,
    "harness/core/planning.py": NONE,
    "conf/screen/main.yaml": NONE,
    # what runs trials, stores rows and judges them
    "harness/core/executor.py": ALL,
    "harness/core/ledger.py": ALL,
    "harness/core/worker.py": ALL,
    "harness/core/process.py": ALL,
    "harness/core/trees.py": ALL,
    "harness/core/plan.py": ALL,
    "harness/records/table.py": ALL,
    "harness/records/files.py": ALL,
    "harness/study.py": ALL,
    "harness/ranks/contract.py": ALL,
    "harness/ranks/exchanges.py": ALL,
    "harness/ranks/simulated.py": SIM,
    "harness/ranks/device.py": CUDA,
    "harness/ranks/timing.py": CUDA,
    "harness/core/launch.py": ALL,
    "harness/studies/screen/program.py": SCREEN,
    "harness/studies/empty_exchange/program.py": EMPTY,
    # the library
    "afdep/shapes.py": ALL,
    "afdep/proof/checks.py": ALL,
    "afdep/csrc/directed.cuh": ALL,
    "afdep/csrc/sim_abi.cpp": SIM,
    "afdep/csrc/cuda_abi.cu": CUDA,
    "afdep/sim/world.py": SIM,
    "afdep/cuda/buffer.py": CUDA,
    "afdep/proof/hunt.py": NONE,
    "afdep/proof/minimise.py": NONE,
    # what others wrote, and what is said of it
    "vendor/PROVENANCE.md": NONE,
    "vendor/simgpu/machine.hpp": SIM,
    "vendor/simgpu/prim_bulk.hpp": SIM,
    # machines
    f"conf/machine/{MACHINE}.yaml": SIM,
    "conf/machine/h100-nvlink.yaml": NONE,
}
"""By file: the studies and backends whose figures it decides."""


WANTED = {one: asked(one[0], [ON[one[1]]], DESK)[0] for one in ASKED}


@dataclass
class Tree:
    """The working tree in a slot, asked once, and planned as often as its files change."""

    slots: Slots
    patch: pytest.MonkeyPatch
    reports: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def plan_hash(self, study: str, backend: str) -> str:
        """The hash of the plan that a command would make of the slot as it is now."""
        with self.patch.context() as patch:
            patch.setattr(trees, "export", lambda *_: self.slots)
            patch.setattr(planning, "_ask", self._ask)
            return planning.make(WANTED[study, backend], ROOT, ROOT, os.environ).plan.plan_hash

    def _ask(self, slot: Path, name: str, request: dict[str, Any], environ: Any) -> dict[str, Any]:
        """What the loaded tree says does not change with its files, but for the digest of its native sources."""
        (backend,) = request["backends"]
        one = (request["study"], backend)
        if one not in self.reports:
            self.reports[one] = ASK(slot, name, request, environ)
        return {**self.reports[one], "native": {backend: str(native_digest(backend, tree=slot))}}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield Tree(trees.export(ROOT, ["working"], tmp_path_factory.mktemp("slots")), patch)


@pytest.fixture(scope="module")
def before(tree):
    return {one: tree.plan_hash(*one) for one in ASKED}


def edited(path: Path) -> str:
    """The text of a file with a change that means something in its language, or would mean something to a reader."""
    text = path.read_text()
    if path.suffix == ".yaml" and "value: " in text:
        return re.sub(r"value: ([0-9.]+)", lambda found: f"value: {float(found[1]) + 1}", text, count=1)
    return text + ("\n// edited\n" if path.suffix in (".hpp", ".cuh", ".cpp", ".cu") else "\n# edited\n")


@pytest.mark.parametrize("name", TABLE)
def test_a_plan_changes_with_the_files_that_decide_its_figures_and_no_other(tree, before, name):
    path = tree.slots.path(0) / name
    kept = path.read_text()
    path.write_text(edited(path))
    try:
        changed = {one for one in ASKED if tree.plan_hash(*one) != before[one]}
    finally:
        path.write_text(kept)
    assert changed == TABLE[name]


def test_what_is_said_of_a_constant_is_no_part_of_the_machine(tree, before):
    path = tree.slots.path(0) / "conf" / "machine" / f"{MACHINE}.yaml"
    kept = path.read_text()
    path.write_text(kept.replace('source: "', 'source: "looked at again; ') + "# edited\n")
    try:
        assert path.read_text() != kept
        assert {one: tree.plan_hash(*one) for one in ASKED} == before
    finally:
        path.write_text(kept)


def test_a_changed_file_is_seen_by_a_plan_that_asks_anew(tree, before, tmp_path):
    """The control of the above: the same edits, with nothing kept from before."""
    one = ("empty-exchange", "sim")
    slot = tree.slots.path(0)
    for name, changes in {"harness/report/page.py": False, "harness/core/worker.py": True}.items():
        copied = Tree(Slots(tmp_path / name.replace("/", "-"), 1), tree.patch)
        shutil.copytree(slot, copied.slots.path(0))
        path = copied.slots.path(0) / name
        path.write_text(edited(path))
        assert (copied.plan_hash(*one) != before[one]) == changes


def test_measuring_processes_load_no_report_and_no_command(tree, before):
    for one in ASKED:
        report = tree.reports[one]
        outside = ("/report", "/desk/", "/config/", "harness/cli.py", "afdep/proof/hunt.py")
        assert not [name for name in (*report["measuring"], *report["library"]) for part in outside if part in name]


def test_what_a_tree_warns_of_as_it_is_asked_is_heard(monkeypatch, capsys, tmp_path):
    said = '{"event": "report", "word": ""}\n'
    done = subprocess.CompletedProcess([], 0, said, "cache: a damaged library. It is built again.\n")
    monkeypatch.setattr(planning.subprocess, "run", lambda *_, **__: done)
    assert planning._ask(tmp_path, "working", {}, {}) == {"event": "report"}
    assert capsys.readouterr().err == done.stderr
