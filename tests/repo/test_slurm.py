"""What the scripts of `slurm` keep replaces records only where there is something in their place."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTHING = {
    "screens": ("h200-screens.sh", [], "h200/records/p0/q0.parquet"),
    "colocated": ("h200-colocated.sh", [], "h200-colocated/records/p0/q0.parquet"),
    "validation": ("h200-validate.sh", ["one-gpu", "nowhere"], "validation/h200-one-gpu.parquet"),
    "validation without words": ("h200-validate.sh", [], "validation/h200-.parquet"),
    "nodes": ("h200-nodes.sh", ["four", "nowhere.tgz"], "h200-four/records/p0/q0.parquet"),
    "nodes without files": ("h200-nodes.sh", ["four"], "h200-four/records/p0/q0.parquet"),
}


def keep(tree: Path, script: str, words: list[str], record: str):
    shutil.copytree(ROOT / "slurm", tree / "slurm")
    (tree / ".venv/bin").mkdir(parents=True)
    (tree / ".venv/bin/python").symlink_to(sys.executable)
    kept = tree / "records" / record
    kept.parent.mkdir(parents=True)
    kept.write_text("kept")
    command = ["bash", str(tree / "slurm" / script), "keep", *words]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False), kept


@pytest.mark.parametrize("name", NOTHING)
def test_a_record_stays_where_there_is_nothing_to_keep_in_its_place(name, tmp_path):
    done, kept = keep(tmp_path, *NOTHING[name])
    assert kept.is_file()
    assert (done.returncode, len(done.stderr.splitlines())) == (4, 2)
    assert done.stderr.startswith("keep: expected ")
