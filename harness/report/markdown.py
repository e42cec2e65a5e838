"""Markdown tables and numbers as every report writes them."""

import re
from collections.abc import Iterable, Mapping, Sequence

_NUMBER = re.compile("(?:(?:over )?[-+\u2212]?\\d(?:.*\\d)?|\u2014|no bound|)")
"""A cell of a column of numbers: a number, a range, a number with its spread, or what stands for none."""
MINUS, ABSENT = "\u2212", "\u2014"
KIND_OF_BACKEND = {"sim": "simulated", "cuda": "measured"}
"""A column holds one kind of figure and says which: these, `co-located` and `published`."""


def table(header: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> str:
    """A table with padded columns, so that it reads in a terminal too; columns in `right` align right.

    What is None is a dash.
    """
    aligned = frozenset(right)
    cells = [list(header), *([ABSENT if one is None else str(one) for one in row] for row in rows)]
    widths = [max(3, *(len(row[index]) for row in cells)) for index in range(len(header))]
    rule = [f"{'-' * (width - 1)}{':' if index in aligned else '-'}" for index, width in enumerate(widths)]
    return "\n".join(_line(row, widths, aligned) for row in (cells[0], rule, *cells[1:]))


def lined(lines: Iterable[Mapping[str, str]]) -> str:
    """A table of lines by the header of each cell, or nothing without a line; columns of numbers align right."""
    found = [dict(line) for line in lines]
    columns = list(zip(*(line.values() for line in found), strict=True))
    right = [at for at, one in enumerate(columns) if all(_NUMBER.fullmatch(cell) for cell in one)]
    return table(list(found[0]), [list(line.values()) for line in found], right) if found else ""


def _line(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = [
        text.rjust(width) if index in right else text.ljust(width)
        for index, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; its minus is U+2212, as printed in the published record."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{MINUS}{text}" if value < 0 else f"+{text}"


def percent(value: float) -> str:
    """A signed percentage with one decimal."""
    return f"{signed(value)}%"


def bullets(lines: Iterable[str], none: str = "None.") -> str:
    """A list, or a sentence where it is empty."""
    return "\n".join(f"- {line}" for line in lines) or none


def images(pictures: Iterable[tuple[str, str]]) -> list[str]:
    """Pictures by file name and by a text for those who cannot see them."""
    return [f"![{text}]({name})" for name, text in pictures]
