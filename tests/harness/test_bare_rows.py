"""The bare rows arrive where they must, byte by byte, in every layout and dtype; rows turned about are noticed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.device.launch import _free_port

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.requires("torch")


def ranks(layout: str, dtype: str, wire: str) -> list[str]:
    """What each rank says."""
    size, port = int(layout[0]) + int(layout[2]), _free_port()
    place = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.harness.bare_rows", layout, dtype, wire]
    started = [
        subprocess.Popen(command, cwd=ROOT, env={**os.environ, **place, "RANK": str(rank)}, stdout=-1, text=True)
        for rank in range(size)
    ]
    return [child.communicate(timeout=120)[0].strip() for child in started]


@pytest.mark.parametrize(("layout", "dtype"), [("1A1F", "bf16"), ("2A2F", "fp8"), ("1A3F", "bf16")])
def test_bare_rows_arrive_and_come_back(layout, dtype):
    ffn, attention = int(layout[2]), int(layout[0])
    assert ranks(layout, dtype, "straight") == ["ffn ok"] * ffn + ["attention ok"] * attention


def test_rows_turned_about_are_noticed():
    said = ranks("1A1F", "bf16", "crossed")
    assert all("row sent" in one for one in said), said
