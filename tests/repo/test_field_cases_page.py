"""Every test that the page of field cases names exists, and every case of it has one."""

import ast
import re
from pathlib import Path

NAMED = re.compile(r"(tests/\S+\.py)::(test_\w+)")


def missing(page: str, root: Path) -> list[str]:
    """The tests that a page names and that are not there."""
    found = []
    for file, name in NAMED.findall(page):
        path = root / file
        tree = ast.parse(path.read_text("utf-8")) if path.exists() else ast.Module([], [])
        if name not in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}:
            found.append(f"{file}::{name}")
    return found


def rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("|")][2:]


def test_every_test_that_the_page_names_exists(root: Path) -> None:
    assert missing((root / "docs" / "field-cases.md").read_text("utf-8"), root) == []


def test_every_row_of_the_page_names_a_test(root: Path) -> None:
    page = (root / "docs" / "field-cases.md").read_text("utf-8")
    assert [row for row in rows(page) if not NAMED.search(row)] == []


def test_a_test_that_is_gone_is_noticed(root: Path) -> None:
    page = "| K1 | it | sim | tests/repo/test_field_cases_page.py::test_that_is_gone |"
    assert missing(page, root) == ["tests/repo/test_field_cases_page.py::test_that_is_gone"]
