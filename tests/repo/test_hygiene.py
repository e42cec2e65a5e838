"""What no file of the tree may hold: machine paths, registry hosts, unfinished work, megabytes, object dtypes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

MAX_BYTES = 5 * 10**6
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|deb\.debian\.org|npmjs\.org|crates\.io/|anaconda\.org|download\.pytorch\.org"
    r"|--(?:extra-)?index-url|--find[-]links"
)
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b")
OBJECT_DTYPE = re.compile(
    r"""select_dtypes\([^)]*\bobject\b|dtype\s*[=!]=\s*(?:np\.)?["']?(?:object|O)\b|is_object_dtype"""
)
SHELF = {"util", "utils", "helper", "helpers", "common", "misc", "stuff"}


def text_of(file: Path) -> str:
    data = file.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8")


def lines_with(pattern: re.Pattern[str], files: list[Path]) -> Iterator[str]:
    for file in files:
        for number, line in enumerate(text_of(file).splitlines(), 1):
            if pattern.search(line):
                yield f"{file.name}:{number}: {line.strip()[:100]}"


def too_large(files: list[Path]) -> list[str]:
    return [file.name for file in files if file.stat().st_size > MAX_BYTES]


def on_a_shelf(files: list[Path], root: Path) -> list[Path]:
    return [file for file in files if SHELF & set(file.relative_to(root).with_suffix("").parts)]


def write(folder: Path, text: str, name: str = "case.py") -> list[Path]:
    file = folder / name
    file.write_text(text, "utf-8")
    return [file]


def test_no_file_names_a_place_on_some_machine(files: list[Path]) -> None:
    assert list(lines_with(MACHINE_PATH, files)) == []


@pytest.mark.parametrize("place", ["work/x", "root/.cache", "home/me", "Users/me"])
def test_a_place_on_some_machine_is_noticed(tmp_path: Path, place: str) -> None:
    found = list(lines_with(MACHINE_PATH, write(tmp_path, f"one\nopen('/{place}')\n")))
    assert found == [f"case.py:2: open('/{place}')"]


@pytest.mark.parametrize("text", ["a/root/b", "~/work/x", "example.org/home/"])
def test_other_paths_pass(tmp_path: Path, text: str) -> None:
    assert list(lines_with(MACHINE_PATH, write(tmp_path, text))) == []


def test_no_file_names_a_package_registry(files: list[Path]) -> None:
    assert list(lines_with(REGISTRY, files)) == []


@pytest.mark.parametrize("text", ["see pypi" + ".org/simple", "pip install --" + "index-url x", "deb.debian" + ".org"])
def test_a_package_registry_is_noticed(tmp_path: Path, text: str) -> None:
    assert len(list(lines_with(REGISTRY, write(tmp_path, text)))) == 1


def test_no_file_holds_unfinished_work(files: list[Path]) -> None:
    assert list(lines_with(UNFINISHED, files)) == []


def test_unfinished_work_is_noticed(tmp_path: Path) -> None:
    assert len(list(lines_with(UNFINISHED, write(tmp_path, "# TO" + "DO: later\n# FIX" + "ME\n")))) == 2


def test_no_file_is_over_five_megabytes(files: list[Path]) -> None:
    assert too_large(files) == []


def test_a_file_over_five_megabytes_is_noticed(tmp_path: Path) -> None:
    assert too_large(write(tmp_path, "x" * (MAX_BYTES + 1))) == ["case.py"]


def test_the_harness_never_asks_for_object_dtypes(files: list[Path], root: Path) -> None:
    harness = [file for file in files if file.is_relative_to(root / "harness") and file.suffix == ".py"]
    assert len(harness) > 10
    assert list(lines_with(OBJECT_DTYPE, harness)) == []


@pytest.mark.parametrize(
    "text",
    [
        "frame.select_dtypes('object')",
        "frame.select_dtypes(include=['object'])",
        "if column.dtype == object:",
        "if column.dtype != np.object:",
        "column.dtype == 'O'",
        "is_object_dtype(column)",
    ],
)
def test_an_object_dtype_is_noticed(tmp_path: Path, text: str) -> None:
    assert len(list(lines_with(OBJECT_DTYPE, write(tmp_path, text)))) == 1


def test_every_file_is_named_for_its_concept(files: list[Path], root: Path) -> None:
    assert on_a_shelf(files, root) == []


@pytest.mark.parametrize("name", ["utils.py", "common/x.py", "helpers.hpp"])
def test_a_file_named_for_a_shelf_is_noticed(tmp_path: Path, name: str) -> None:
    assert on_a_shelf([tmp_path / name], tmp_path) == [tmp_path / name]
