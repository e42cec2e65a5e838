"""What a bare node must run imports neither Hydra nor a cluster client; records import nothing else of ours."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("hydra", "omegaconf", "submitit", "matplotlib", "pandas", "scipy")


def loaded_by(module: str) -> set[str]:
    code = f"import {module}, sys; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


RUNNING = "worker executor probe plan offline simulated device.measuring device.rank validation.offline".split()


@pytest.mark.parametrize("module", [f"harness.{name}" for name in RUNNING])
def test_running_a_plan_loads_no_hydra_and_no_cluster_client(module):
    assert not {name.partition(".")[0] for name in loaded_by(module)} & set(HEAVY)


@pytest.mark.parametrize("module", ["harness.offline", "harness.device.measuring", "harness.device.rank"])
def test_only_a_ranks_own_arm_loads_torch_or_yaml(module):
    assert not {name.partition(".")[0] for name in loaded_by(module)} & {"torch", "yaml"}


@pytest.mark.parametrize("module", ["harness.worker", "harness.device.rank"])
def test_nothing_of_the_tree_is_loaded_before_a_process_has_checked_its_sources(module):
    assert not {name for name in loaded_by(module) if name.partition(".")[0] == "afdep"}


def test_the_check_sees_hydra_where_it_is():
    assert "hydra" in {name.partition(".")[0] for name in loaded_by("harness.compose")}


def test_records_load_nothing_of_ours():
    ours = {name for name in loaded_by("harness.records") if name.partition(".")[0] in ("harness", "afdep")}
    assert ours - {"harness"} == {
        "harness.records",
        "harness.records.errors",
        "harness.records.files",
        "harness.records.schema",
        "harness.records.store",
    }
