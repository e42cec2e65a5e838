"""README leads with the generated table between its markers, and the pages link to files that exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"
LINK = re.compile(r"\]\((?![a-z]+://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")

PATH = re.compile(r"`(\w+(?:/[\w.-]+)+)(?:::\w+)?`")
OLDER = {"performance-log.md": ["records/h200"]}
"""Names that a page quotes as they were; it says what they are today."""


def block_fault(text: str) -> str | None:
    """Return what is wrong with the generated block of a page, or None."""
    lines = [line.strip() for line in text.splitlines()]
    if lines.count(BEGIN) != 1 or lines.count(END) != 1:
        return "each marker must stand once, alone on its line"
    begin, end = lines.index(BEGIN), lines.index(END)
    if end < begin:
        return "the markers are out of order"
    if any(line.startswith("## ") for line in lines[:begin]):
        return "the block must come before the first section"
    if not any(line.startswith("|") for line in lines[begin:end]):
        return "the block holds no table"
    return None


def dead_links(page: Path) -> list[str]:
    return [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]


def missing_files(text: str, root: Path) -> list[str]:
    """Paths in backticks that begin with a folder of the tree and lead nowhere; NAME stands for any of its kind."""
    folders = {path.name for path in root.iterdir() if path.is_dir()} - {"out", "build"}
    named = [one for one in PATH.findall(text) if one.partition("/")[0] in folders and one == one.lower()]
    return sorted({one for one in named if not (root / one).exists()})


def page(begin: str = BEGIN, table: str = "| a |", end: str = END, before: str = "# Title") -> str:
    return "\n".join([before, begin, table, end, "## Install"])


def test_readme_leads_with_the_generated_table(root: Path) -> None:
    assert block_fault((root / "README.md").read_text("utf-8")) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (page(begin=""), "once"),
        (page(end=f"{END}\n{END}"), "once"),
        (page(begin=END, end=BEGIN), "out of order"),
        (page(before="## First"), "first section"),
        (page(table="none yet"), "no table"),
    ],
    ids=["begin missing", "end twice", "swapped", "late", "empty"],
)
def test_a_damaged_block_is_noticed(text: str, fault: str) -> None:
    assert fault in (block_fault(text) or "")


def test_a_sound_block_passes() -> None:
    assert block_fault(page()) is None


def test_every_link_of_a_page_leads_to_a_file(files: list[Path]) -> None:
    pages = [file for file in files if file.suffix == ".md"]
    assert len(pages) > 5
    assert {page.name: dead for page in pages if (dead := dead_links(page))} == {}


def test_a_dead_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("[a](page.md) [b](gone.md#part) [c](https://example.org/x) [d](#here)", "utf-8")
    assert dead_links(tmp_path / "page.md") == ["gone.md"]


def test_every_file_that_a_page_names_is_there(root: Path, files: list[Path]) -> None:
    pages = [
        one for one in files if one.suffix == ".md" and one.relative_to(root).parts[0] not in ("reports", "records")
    ]
    assert len(pages) > 10
    found = {one.name: missing for one in pages if (missing := missing_files(one.read_text("utf-8"), root))}
    assert found == OLDER


def test_a_name_of_no_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").touch()
    assert missing_files("`docs/a.md` `docs/gone.md` `docs/NAME.md` `dispatch/combine`", tmp_path) == ["docs/gone.md"]


def test_the_example_in_readme_runs(root: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(examples) == 1
    result = subprocess.run([sys.executable, "-c", examples[0]], cwd=root, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
