"""Figures of the published record, as data: read from records/published, never typed."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.errors import PublishedError, valid_names
from harness.workspace import REPOSITORY

TABLES = REPOSITORY / "records" / "published" / "tables.csv"
CLAIMS = REPOSITORY / "records" / "published" / "claims.csv"

BASELINE, CANDIDATE = "fastafd_m2n", "afdep"


class Point(NamedTuple):
    """The cell a published figure is for."""

    layout: str
    hidden: int
    dtype: str
    routing: str
    tokens: int


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
    rows = _rows(path)
    chosen = [row for row in rows if row["table_id"] == table_id]
    if not chosen:
        raise PublishedError(
            f"published table: expected a known id, received {table_id!r}.",
            valid_names(table_id, sorted({row["table_id"] for row in rows if row["metric"] == "change_pct"})),
        )
    figures: dict[Point, dict[str, float]] = {}
    for row in chosen:
        figures.setdefault(_point(row), {})[_figure(row)] = float(row["value"])
    first = chosen[0]
    cells = {point: _cell(table_id, point, found) for point, found in figures.items()}
    return PublishedTable(table_id, first["nodes_gpus"], first["native_digest"], int(first["repeats"]), cells)


def absolutes(table_id: str, arm: str, nodes_gpus: str, path: Path = TABLES) -> dict[Point, float]:
    """Round trips in us of one arm on one machine, as a table has them of collects that copy.

    Args:
        table_id: its slug.
        arm: as the published record names it.
        nodes_gpus: the machine, as 4xH100.
        path: of the tables.

    Raises:
        PublishedError: the table has none.
    """
    wanted = {"table_id": table_id, "arm": arm, "nodes_gpus": nodes_gpus, "metric": "latency_us", "collect": "copy"}
    found = {_point(row): float(row["value"]) for row in _rows(path) if wanted.items() <= row.items()}
    if not found:
        raise PublishedError(
            f"published table {table_id}: expected round trips of {arm} on {nodes_gpus}, received none.",
            "records/published/README.md lists tables, arms and machines.",
        )
    return found


def claims(path: Path = CLAIMS) -> list[dict[str, str]]:
    """The published claims, one mapping each.

    Raises:
        PublishedError: the file is missing.
    """
    return _rows(path)


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    except FileNotFoundError as error:
        raise PublishedError(f"{path.name}: expected under {path.parent}, received none.", "Restore it.") from error


def _point(row: Mapping[str, str]) -> Point:
    return Point(row["layout"], int(row["hidden"]), row["dtype"], row["routing"], int(row["tokens"]))


def _figure(row: Mapping[str, str]) -> str:
    return row["metric"] if row["vs_arm"] else f"{row['arm']}.{row['metric']}"


def _cell(table_id: str, point: Point, found: Mapping[str, float]) -> PublishedCell:
    names = (f"{BASELINE}.latency_us", f"{CANDIDATE}.latency_us", "change_pct")
    _require(table_id, point, found, names)
    return PublishedCell(*(found[name] for name in names))


def _require(table_id: str, point: Point, found: Mapping[str, float], names: Iterable[str]) -> None:
    missing = [name for name in names if name not in found]
    if missing:
        raise PublishedError(
            f"published table {table_id}, {' '.join(map(str, point))}: expected {', '.join(missing)}, received none.",
            "Only tables with both arms and their change can stand beside a screen.",
        )
