"""What a bare node must run imports neither Hydra nor a cluster client; records import nothing else of ours."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness import study

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("hydra", "omegaconf", "submitit", "matplotlib", "pandas", "scipy")
DESK = ("harness.desk", "harness.report", "harness.config")
NEEDED = {"harness.studies.fit.program": {"scipy"}}
"""A fit solves; it runs on the simulator alone."""
PROGRAMS = [f"harness.studies.{name.replace('-', '_')}.program" for name in study.names()]
RUNNING = ["harness.core.worker", "harness.core.executor", "harness.core.node", "harness.core.planning", *PROGRAMS]


def loaded_by(module: str) -> set[str]:
    code = f"import {module}, sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def packages(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("module", RUNNING)
def test_running_a_plan_loads_no_hydra_no_cluster_client_and_nothing_of_the_desk(module):
    names = loaded_by(module)
    assert not packages(names) & ({*HEAVY, "torch", "yaml"} - NEEDED.get(module, set()))
    assert not [name for name in names if name.startswith(DESK)]


def test_nothing_of_the_tree_is_loaded_before_a_process_has_checked_its_sources():
    assert "afdep" not in packages(loaded_by("harness.core.worker"))


def test_the_check_sees_hydra_where_it_is():
    assert {"hydra", "yaml"} <= packages(loaded_by("harness.config.compose"))


def test_a_desk_that_draws_nothing_loads_no_plots():
    assert not packages(loaded_by("harness.desk.run")) & {"matplotlib", "pandas", "torch"}


def test_records_load_nothing_of_ours():
    ours = {name for name in loaded_by("harness.records") if name.partition(".")[0] in ("harness", "afdep")}
    assert ours - {"harness"} == {
        "harness.records",
        "harness.records.archived",
        "harness.records.envelope",
        "harness.records.errors",
        "harness.records.files",
        "harness.records.table",
    }
