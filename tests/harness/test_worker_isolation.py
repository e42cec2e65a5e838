"""Only the planned sources give a figure: started from the wrong folder or search path, a process voids itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import plan as plans
from harness import planning, process, records, trees
from harness.compose import compose, load_options
from harness.errors import SlotPathError
from harness.job import Job
from harness.validate import screen_config
from tests.harness.conftest import SMALL, make_bench, make_tree


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A bench, its plan file, the planned slot, and another tree with other native sources and the same harness."""
    bench = make_bench(tmp_path_factory.mktemp("isolation") / "repository")
    conf = bench.root / "conf"
    config = screen_config(compose("screen", [*SMALL, "tokens=[1]"], conf), load_options("routing", conf))
    plan, slots = planning.make(config, bench.root, bench.out("trees"), bench.environ)
    saved = plans.save(bench.out("plans"), plan, "now", "command")
    other = make_tree(bench.root / "other", "two")
    trees._lay_harness_over(other)
    return bench.out("plans") / f"{saved.plan_hash}.json", slots.path(0).resolve(), other


def start(planned, folder: Path, cwd: Path, environment: dict[str, str], flags: list[str]) -> records.Record | None:
    """Start one process by hand and return its record, if it wrote one."""
    plan_path, slot, _ = planned
    job = Job(str(plan_path), 0, str(slot), str(folder / "records"), 1, 0)
    job.save(folder / "job.json")
    command = [sys.executable, *flags, "-m", "harness.worker", str(folder / "job.json")]
    with subprocess.Popen(
        command, cwd=cwd, env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.PIPE
    ) as child:
        child.wait()
    found = records.read(records.record_files(folder / "records")).records
    return found[0] if found else None


def test_started_as_the_executor_does_it_gives_a_figure(planned, tmp_path):
    (tmp_path / "start").mkdir()
    environment = process.environment(planned[1], {})
    record = start(planned, tmp_path, tmp_path / "start", environment, ["-P"])
    assert (record.status, record.module_path, record.safe_path) == ("ok", "afdep/__init__.py", True)
    assert record.loaded_digest == record.native_digest


SLOT, OTHER = "{slot}", "{other}"


@pytest.mark.parametrize(
    ("environment", "flags"),
    [
        ({"PYTHONPATH": SLOT}, []),
        ({"PYTHONPATH": SLOT, "PYTHONSAFEPATH": ""}, []),
        ({"PYTHONPATH": f":{SLOT}", "PYTHONSAFEPATH": "1"}, ["-P"]),
        ({"PYTHONPATH": f"{SLOT}:", "PYTHONSAFEPATH": "1"}, ["-P"]),
        ({"PYTHONPATH": f"{SLOT}:.", "PYTHONSAFEPATH": "1"}, ["-P"]),
        ({"PYTHONPATH": ".", "PYTHONSAFEPATH": "1"}, ["-P"]),
        ({"PYTHONPATH": OTHER, "PYTHONSAFEPATH": "1"}, ["-P"]),
        ({"PYTHONPATH": f"{OTHER}:{SLOT}", "PYTHONSAFEPATH": "1"}, ["-P"]),
        ({}, []),
    ],
    ids=[
        "no flag",
        "empty flag",
        "empty entry first",
        "empty entry last",
        "dot last",
        "dot",
        "other",
        "other first",
        "none",
    ],
)
def test_started_inside_another_tree_it_is_void(planned, tmp_path, environment, flags):
    _, slot, other = planned
    places = {name: value.format(slot=slot, other=other) for name, value in environment.items()}
    record = start(planned, tmp_path, other, places, flags)
    assert record is not None
    assert record.status == "void"
    assert record.latency_us is None
    assert record.void_reason


@pytest.mark.parametrize("path", ["", ".", ":/slot", "/slot:", "/one:/two", "slot", "x:."])
def test_the_executor_refuses_a_search_path_that_lets_others_in(path):
    with pytest.raises(SlotPathError, match="expected the absolute path of one slot"):
        process.search_path(path)


def test_a_process_inherits_only_what_the_list_allows():
    given = {
        "PATH": "/bin",
        "AFDEP_UNION_NOTIFY": "1",
        "PYTHONPATH": "/elsewhere",
        "PYTHONSTARTUP": "x",
        "SLURM_CPU_BIND": "x",
    }
    inherited = process.environment(Path("/slot"), given)
    assert inherited["PATH"] == "/bin"
    assert inherited["PYTHONPATH"] == "/slot"
    assert not {"AFDEP_UNION_NOTIFY", "PYTHONSTARTUP", "SLURM_CPU_BIND"} & set(inherited)
