"""Only the planned sources give a figure: started from the wrong folder or search path, a process voids itself."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core import process
from harness.core.journal import Attempt
from harness.core.worker import Job
from harness.errors import WorkspaceError

SLOT, OTHER = "{slot}", "{other}"


@pytest.fixture(scope="module")
def other(made, tmp_path_factory):
    """Another tree, whose afdep differs in one line."""
    tree = tmp_path_factory.mktemp("other") / "slot"
    shutil.copytree(made.slots.path(0), tree)
    with (tree / "afdep" / "layout.py").open("a") as stream:
        stream.write("# other\n")
    return tree


def start(bench, folder: Path, cwd: Path, environment: dict[str, str], flags: list[str]) -> dict[str, str]:
    """Start one process by hand: what it says last."""
    file = bench.plan(["ok"])
    slot = str(bench.made.slots.path(0).resolve())
    attempt = Attempt(0, 0, 0, trials=(0,), number=1, run="r1", command="command")
    job = Job(str(file.path), attempt, slot, bench.made.sources, folder=str(folder))
    command = [sys.executable, *flags, "-m", "harness.core.worker", str(job.save())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        command, cwd=cwd, env={"PATH": os.environ["PATH"], **environment}, text=True, **pipes
    ) as child:
        child.stdin.write("go\nmeasure\n")
        child.stdin.flush()
        said = child.stdout.read()
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return events[-1] if events else {"event": "nothing"}


def test_started_as_the_executor_does_it_gives_a_figure(bench, tmp_path):
    (tmp_path / "start").mkdir()
    environment = process.environment(bench.made.slots.path(0).resolve(), {})
    folder = tmp_path / "job"
    folder.mkdir()
    found = start(bench, folder, tmp_path / "start", environment, ["-P"])
    assert (found["event"], found["outside"]) == ("ended", [])


CASES = {
    "no flag": ({"PYTHONPATH": SLOT}, []),
    "empty flag": ({"PYTHONPATH": SLOT, "PYTHONSAFEPATH": ""}, []),
    "empty entry first": ({"PYTHONPATH": f":{SLOT}", "PYTHONSAFEPATH": "1"}, ["-P"]),
    "empty entry last": ({"PYTHONPATH": f"{SLOT}:", "PYTHONSAFEPATH": "1"}, ["-P"]),
    "dot last": ({"PYTHONPATH": f"{SLOT}:.", "PYTHONSAFEPATH": "1"}, ["-P"]),
    "dot": ({"PYTHONPATH": ".", "PYTHONSAFEPATH": "1"}, ["-P"]),
    "other": ({"PYTHONPATH": OTHER, "PYTHONSAFEPATH": "1"}, ["-P"]),
    "other first": ({"PYTHONPATH": f"{OTHER}:{SLOT}", "PYTHONSAFEPATH": "1"}, ["-P"]),
    "none": ({}, []),
}


@pytest.mark.parametrize("name", CASES)
def test_started_inside_another_tree_it_is_void(bench, other, tmp_path, name):
    environment, flags = CASES[name]
    slot = bench.made.slots.path(0).resolve()
    places = {key: value.format(slot=slot, other=other) for key, value in environment.items()}
    found = start(bench, tmp_path, other, places, flags)
    assert found["event"] == "void", found
    assert found["reason"]


@pytest.mark.parametrize("path", ["", ".", ":/slot", "/slot:", "/one:/two", "slot", "x:."])
def test_a_search_path_that_lets_others_in_is_refused(path):
    with pytest.raises(WorkspaceError, match="expected the absolute path of one slot"):
        process.environment(Path(path), {})


def test_a_measured_process_inherits_no_control_and_no_search_path():
    told = {"AFDEP_UNION_NOTIFY": "1", "PYTHONPATH": "/x", "PATH": "/bin", "LD_PRELOAD": "x", "NVCC_APPEND_FLAGS": "-G"}
    assert process.environment(Path("/slot"), told).keys() == {
        "PATH",
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        "PYTHONDONTWRITEBYTECODE",
        "OMP_NUM_THREADS",
        "MPLBACKEND",
    }
