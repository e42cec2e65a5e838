"""The tables of a page in Markdown, as plain lines: prose, padding and alignment may change, tables may not.

After records were kept and their pages written, `python -m tests.repo.report_tables > tests/golden/report_tables.json`.
"""

import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
README = "README.md"
BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"

HEADING = re.compile(r"#+ +(.*\S)")
ROW_LABEL = re.compile(r"\d+A\d+F\b")
RULE = re.compile(r"\|(?: *:?-+:? *\|)+")

Table = dict[str, Any]


def tables(text: str) -> list[Table]:
    """Every table of a page, in order.

    Returns:
        Of each its `lines`, header first, with cells joined by ` | `; and `of`, the heading that it stands under where
        that names a row of a screen, as `2A2F, 2,048, random`, else None.
    """
    found: list[Table] = []
    row = None
    for is_table, group in itertools.groupby(text.splitlines(), lambda line: line.startswith("|")):
        lines = list(group)
        if is_table:
            found.append({"of": row, "lines": [plain(line) for line in lines if line is not rule_of(lines)]})
        for heading in filter(None, map(HEADING.fullmatch, lines)):
            row = heading[1] if ROW_LABEL.match(heading[1]) else None
    return found


def rule_of(lines: list[str]) -> str | None:
    """The line between header and body; it holds alignment alone."""
    return lines[1] if len(lines) > 1 and RULE.fullmatch(lines[1].rstrip()) else None


def plain(line: str) -> str:
    """A line of a table without padding."""
    return " | ".join(cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|"))


def text_of(root: Path, name: str) -> str:
    """A page as it lies in the tree; of README what stands between the two markers."""
    text = (root / name).read_text("utf-8")
    return text.partition(BEGIN)[2].partition(END)[0] if name == README else text


def page_names(files: Iterable[Path], root: Path) -> list[str]:
    """README and every page under reports/, by its path in the tree."""
    names = (path.relative_to(root).as_posix() for path in files)
    return sorted(name for name in names if name == README or re.fullmatch(r"reports/.*\.md", name))


def differences(golden: list[Table], found: list[Table]) -> list[str]:
    """Return where the tables of a page are not the golden ones."""
    if len(golden) != len(found):
        return [f"{len(golden)} tables expected, {len(found)} found"]
    pairs = enumerate(zip(golden, found, strict=True), 1)
    return [f"table {number}: {what}" for number, (old, new) in pairs for what in table_differences(old, new)]


def table_differences(golden: Table, found: Table) -> Iterator[str]:
    if golden["of"] != found["of"]:
        yield f"expected under {golden['of']!r}, found under {found['of']!r}"
    if len(golden["lines"]) != len(found["lines"]):
        yield f"{len(golden['lines'])} lines expected, {len(found['lines'])} found"
    for old, new in zip(golden["lines"], found["lines"], strict=False):
        if old != new:
            yield f"expected {old!r}, found {new!r}"


if __name__ == "__main__":
    pages = [README, *page_names(ROOT.glob("reports/**/*.md"), ROOT)]
    frozen = {name: tables(text_of(ROOT, name)) for name in pages}
    json.dump(frozen, sys.stdout, indent=1, sort_keys=True, ensure_ascii=False)
    sys.stdout.write("\n")
