"""Files and functions stay short enough to read: 300 lines a file, 10 lines the median function, 35 nine in ten."""

import ast
from pathlib import Path
from statistics import median

import pytest

MAX_FILE_LINES = 300
MAX_MEDIAN_LINES = 10
MAX_USUAL_LINES = 35
CODE = {".py", ".hpp", ".h", ".cuh", ".cpp", ".cu"}


def function_lengths(sources: list[str]) -> list[int]:
    """Return the length of every function, shortest first."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def length_fault(lengths: list[int]) -> str | None:
    """Return which of the two bounds the functions break, or None."""
    if median(lengths) > MAX_MEDIAN_LINES:
        return f"the median function has {median(lengths)} lines"
    usual = lengths[int(0.9 * (len(lengths) - 1))]
    return f"one function in ten has more than {usual} lines" if usual > MAX_USUAL_LINES else None


def long_files(files: list[Path]) -> list[str]:
    code = [file for file in files if file.suffix in CODE]
    return [file.name for file in code if len(file.read_text("utf-8").splitlines()) > MAX_FILE_LINES]


@pytest.mark.parametrize("package", ["afdep", "harness", "records"])
def test_functions_are_short(files: list[Path], root: Path, package: str) -> None:
    python = [file for file in files if file.suffix == ".py" and file.is_relative_to(root / package)]
    assert length_fault(function_lengths([file.read_text("utf-8") for file in python])) is None


@pytest.mark.parametrize(("lines", "fault"), [([11, 11], "median"), ([2] * 8 + [36] * 2, "one function in ten")])
def test_long_functions_are_noticed(lines: list[int], fault: str) -> None:
    sources = ["def f():\n" + "    x = 1\n" * (count - 1) for count in lines]
    assert fault in (length_fault(function_lengths(sources)) or "")


def test_files_are_short(files: list[Path]) -> None:
    assert long_files(files) == []


def test_a_long_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * (MAX_FILE_LINES + 1))
    (tmp_path / "short.py").write_text("x = 1\n" * MAX_FILE_LINES)
    assert long_files(list(tmp_path.iterdir())) == ["long.py"]
