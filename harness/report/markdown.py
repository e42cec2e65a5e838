"""Markdown tables and numbers as every report writes them."""

from collections.abc import Iterable, Sequence

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
