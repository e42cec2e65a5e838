"""Figures of others, as data: the published record under records/published, upstream runs under records/upstream."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from afdep.tree import root
from harness.errors import PublishedError, valid_names
from harness.ranks.cells import Row

RECORDS = root() / "records"
TABLES = RECORDS / "published" / "tables.csv"
CLAIMS = RECORDS / "published" / "claims.csv"
UPSTREAM = RECORDS / "upstream" / "round-trips.csv"

BASELINE, CANDIDATE = "fastafd_m2n", "afdep"
H200_TABLE, H200S = "s15-noload", "4xH200"
"""The published table with round trips of four H200s; its candidate is a later tree than that of the main table."""
UPSTREAM_ARM = "upstream"
"""The arm that the symmetric baseline is a reconstruction of."""


class Point(NamedTuple):
    """The cell a published figure is for."""

    layout: str
    hidden: int
    dtype: str
    routing: str
    tokens: int

    @classmethod
    def of(cls, row: Row, tokens: int) -> "Point":
        return cls(row.layout, row.hidden, row.dtype, row.routing, tokens)


@dataclass(frozen=True)
class PublishedCell:
    """Both arms of one published cell and the published paired change, which is not their ratio."""

    baseline_us: float
    candidate_us: float
    change_pct: float


@dataclass(frozen=True)
class PublishedTable:
    """A result table of the published record.

    Args:
        table_id: its slug.
        nodes_gpus: the machine, as 4xH100.
        native_digest: of the tree it measured, as printed there.
        repeats: fresh-process repeats.
        cells: by point.
    """

    table_id: str
    nodes_gpus: str
    native_digest: str
    repeats: int
    cells: Mapping[Point, PublishedCell]

    def stands_beside(self, baseline: str, candidate: str) -> bool:
        """Whether these two arms are the ones it measured: its baseline, and the preset frozen at its digest."""
        return baseline == "m2n" and candidate == f"afdep@{self.native_digest}"


def load(table_id: str, path: Path = TABLES) -> PublishedTable:
    """Read one result table: both arms and the change of every cell.

    Raises:
        PublishedError: no such table, or a cell that lacks one of its three figures.
    """
    rows = read(path)
    chosen = [row for row in rows if row["table_id"] == table_id]
    if not chosen:
        raise PublishedError(
            f"published table: expected a known id, received {table_id!r}.",
            valid_names(table_id, sorted({row["table_id"] for row in rows if row["metric"] == "change_pct"})),
        )
    figures: dict[Point, dict[str, float]] = {}
    for row in chosen:
        figure = row["metric"] if row["vs_arm"] else f"{row['arm']}.{row['metric']}"
        figures.setdefault(_point(row), {})[figure] = float(row["value"])
    first = chosen[0]
    cells = {point: _cell(table_id, point, found) for point, found in figures.items()}
    return PublishedTable(table_id, first["nodes_gpus"], first["native_digest"], int(first["repeats"]), cells)


def round_trips(table_id: str, arm: str, machine: str) -> dict[Point, float]:
    """Round trips in us of one published arm on one machine, of collects that copy.

    Raises:
        PublishedError: none were.
    """
    wanted = {"table_id": table_id, "arm": arm, "nodes_gpus": machine, "metric": "latency_us", "collect": "copy"}
    found = {_point(row): float(row["value"]) for row in read(TABLES) if wanted.items() <= row.items()}
    if not found:
        raise PublishedError(
            f"published table {table_id}: expected round trips of {arm} on {machine}, received none.",
            f"See {TABLES.name} for the arms and machines of each table.",
        )
    return found


def upstream(path: Path = UPSTREAM) -> dict[tuple[str, Point, int], tuple[float, ...]]:
    """Round trips in us of upstream code on two H200s by arm, cell and transport SMs, one figure a run.

    Raises:
        PublishedError: no such file.
    """
    figures: dict[tuple[str, Point, int], tuple[float, ...]] = {}
    for row in sorted(read(path), key=lambda one: int(one["run"])):
        place = row["arm"], _point(row), int(row["transport_sms"])
        figures[place] = (*figures.get(place, ()), float(row["latency_us"]))
    return figures


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file of figures.

    Raises:
        PublishedError: the file is missing.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    except FileNotFoundError as error:
        raise PublishedError(f"{path.name}: expected under {path.parent}, received none.", "Restore it.") from error


def _point(row: Mapping[str, str]) -> Point:
    return Point(row["layout"], int(row["hidden"]), row["dtype"], row["routing"], int(row["tokens"]))


def _cell(table_id: str, point: Point, found: Mapping[str, float]) -> PublishedCell:
    names = (f"{BASELINE}.latency_us", f"{CANDIDATE}.latency_us", "change_pct")
    missing = [name for name in names if name not in found]
    if missing:
        raise PublishedError(
            f"published table {table_id}, {' '.join(map(str, point))}: expected {', '.join(missing)}, received none.",
            "Only tables with both arms and their change can stand beside a screen.",
        )
    return PublishedCell(*(found[name] for name in names))
