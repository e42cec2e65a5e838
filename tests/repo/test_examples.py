"""What README and examples show runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README_LINES = re.compile(r"```python(?: gpu)?\n(.*?)```", re.DOTALL)


def test_readme_shows_ten_lines_of_torch_and_ten_of_the_simulator(root: Path) -> None:
    examples = README_LINES.findall((root / "README.md").read_text("utf-8"))
    assert len(examples) == 2
    assert all(len([line for line in text.splitlines() if line.strip()]) <= 14 for text in examples)
    compile(examples[0], "README.md", "exec")  # tests/device runs it


@pytest.mark.requires("torch")
def test_the_layer_of_examples_is_exact_enough_on_the_simulator(root: Path) -> None:
    command = [sys.executable, "-m", "examples.moe_layer", "--simulate", "--layout", "2A2F"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^step \d, rank [23]: within 0\.00\d+ of one process$", done.stdout, flags=re.M)) == 8


@pytest.mark.requires("torch")
def test_a_layer_that_loses_its_weights_is_noticed(root: Path) -> None:
    text = (root / "examples" / "moe_layer.py").read_text("utf-8")
    broken = text.replace("(out * shares[:, None]).bfloat16()", "out")
    assert broken != text
    command = [sys.executable, "-c", broken, "--simulate", "--layout", "1A1F"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert "expected the layer of one process within" in done.stderr
