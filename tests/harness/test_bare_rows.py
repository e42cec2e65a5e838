"""The bare rows arrive where they must, byte by byte, in every layout and dtype; rows turned about are noticed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STRAIGHT = ("1A1F bf16", "2A2F fp8", "1A3F bf16")
CROSSED = "1A1F bf16"
pytestmark = pytest.mark.requires("torch")


@pytest.fixture(scope="module")
def said() -> dict[str, list[str]]:
    """By case what each rank says."""
    cases = [*(f"{case} straight" for case in STRAIGHT), f"{CROSSED} crossed"]
    command = [sys.executable, "-m", "tests.harness.bare_rows", *cases]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return dict(zip(cases, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", STRAIGHT)
def test_bare_rows_arrive_and_come_back(said, case):
    attention, ffn = int(case[0]), int(case[2])
    assert said[f"{case} straight"] == ["ffn ok"] * ffn + ["attention ok"] * attention


def test_rows_turned_about_are_noticed(said):
    found = said[f"{CROSSED} crossed"]
    assert found
    assert all("row sent" in one for one in found), found
