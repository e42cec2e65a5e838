"""Round trips of upstream code on two H200s, as data: read from records/upstream, never typed."""

import csv
from dataclasses import dataclass
from pathlib import Path

from harness.screen_config import Row
from harness.errors import PublishedError
from harness.workspace import REPOSITORY

TABLE = REPOSITORY / "records" / "upstream" / "round-trips.csv"
ARM = "upstream"
"""The arm that the symmetric baseline is a reconstruction of."""


@dataclass(frozen=True)
class Place:
    """The cell a figure is for."""

    layout: str
    hidden: int
    dtype: str
    routing: str
    tokens: int
    transport_sms: int


def load(path: Path = TABLE) -> dict[tuple[str, Place], tuple[float, ...]]:
    """Round trips in us by arm and cell, one figure a run.

    Raises:
        PublishedError: no such file.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except FileNotFoundError as error:
        raise PublishedError(f"{path.name}: expected under {path.parent}, received none.", "Restore it.") from error
    figures: dict[tuple[str, Place], tuple[float, ...]] = {}
    for row in sorted(rows, key=lambda one: int(one["run"])):
        numbers = {name: int(row[name]) for name in ("hidden", "tokens", "transport_sms")}
        place = Place(layout=row["layout"], dtype=row["dtype"], routing=row["routing"], **numbers)
        figures[row["arm"], place] = (*figures.get((row["arm"], place), ()), float(row["latency_us"]))
    return figures


def place(row: Row, tokens: int, transport_sms: int) -> Place:
    """The place of a planned cell."""
    return Place(row.layout, row.hidden, row.dtype, row.routing, tokens, transport_sms)
