"""The published figures are well formed, and the check of them notices each kind of damage."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PUBLISHED = Path(__file__).parents[2] / "records" / "published"


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, folder / script], capture_output=True, text=True, timeout=60)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PUBLISHED, tmp_path / "published", ignore=shutil.ignore_patterns("__pycache__")))


def alter(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(old) >= 1
    file.write_text(text.replace(old, new, 1), "utf-8")


def test_the_published_files_have_no_fault() -> None:
    result = run(PUBLISHED, "check.py")
    assert result.returncode == 0, result.stdout
    assert "1128 figures under 94 ids, 180 claims: 0 faults" in result.stdout


DAMAGE = {
    "a digit of a value": ("tables.csv", "latency_us,20.7,", "latency_us,20.6,", "is not the literal '20.7'"),
    "a value that is no number": ("tables.csv", "latency_us,20.7,", "latency_us,fast,", "value is not a number"),
    "a layout": ("tables.csv", ",2A2F,", ",2F2A2,", "not of the form 2A2F"),
    "a dtype": ("tables.csv", ",bf16,", ",fp16,", "dtype is 'fp16'"),
    "a reference arm": ("tables.csv", ",afdep,,latency_us,", ",afdep,m2n,latency_us,", "an absolute value with vs_arm"),
    "a stated count": ("README.md", "| result-main | Result | 108 |", "| result-main | Result | 109 |", "says 109"),
    "a kind of claim": ("claims.csv", ",latency,", ",speed,", "kind 'speed'"),
    "the header": ("claims.csv", "id,section,", "id,chapter,", "expected columns"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_to_one_place_is_noticed(copy: Path, damage: tuple[str, str, str, str]) -> None:
    name, old, new, complaint = damage
    alter(copy / name, old, new)
    result = run(copy, "check.py")
    assert result.returncode == 1
    assert complaint in result.stdout + result.stderr


def test_a_repeated_row_is_noticed(copy: Path) -> None:
    lines = (copy / "tables.csv").read_text("utf-8").splitlines(keepends=True)
    (copy / "tables.csv").write_text("".join([*lines, lines[-1]]), "utf-8")
    result = run(copy, "check.py")
    assert result.returncode == 1
    assert "same key as line 1129" in result.stdout


def test_a_missing_row_is_noticed(copy: Path) -> None:
    lines = (copy / "tables.csv").read_text("utf-8").splitlines(keepends=True)
    (copy / "tables.csv").write_text("".join(lines[:-1]), "utf-8")
    result = run(copy, "check.py")
    assert result.returncode == 1
    assert "tables.csv: 1127 rows, README.md says 1128" in result.stdout


def test_figures_given_twice_are_compared() -> None:
    result = run(PUBLISHED, "recompute.py")
    assert result.returncode == 0, result.stderr
    assert "      34.6     34.603    +0.00   union window at 4 ranks, MB (4 x 2048 x 4224 B)" in result.stdout


def test_a_changed_figure_shows_in_the_comparison(copy: Path) -> None:
    alter(copy / "tables.csv", "memory_mb,34.6,", "memory_mb,44.6,")
    assert "      44.6     34.603   -10.00   union window" in run(copy, "recompute.py").stdout
