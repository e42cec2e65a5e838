"""The torch lines of README and the layer of examples run on this machine's GPUs; ranks may share one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES = re.search(r"```python gpu\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
CHECK = """
if buffer.role == "attention":
    assert torch.equal(y, 4 * x), "each token goes to two experts, and each doubles it"
    print("exact")
buffer.close()
"""

pytestmark = [pytest.mark.requires("gpus:1", "one-worker")]


def run(*command: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_ten_lines_of_torch_bring_back_the_sum_over_experts(tmp_path):
    assert LINES is not None
    (tmp_path / "lines.py").write_text(LINES[1] + CHECK)
    said = run("torch.distributed.run", "--nproc-per-node", "2", str(tmp_path / "lines.py"))
    assert said.split() == ["exact"]


@pytest.mark.parametrize("layout", ["1A1F", "2A2F"])
def test_a_moe_layer_is_that_of_one_process(layout):
    said = run("examples.moe_layer", "--layout", layout)
    steps = re.findall(r"^step \d, rank \d: within 0\.00\d+ of one process$", said, flags=re.M)
    assert len(steps) == 4 * int(layout[0])
