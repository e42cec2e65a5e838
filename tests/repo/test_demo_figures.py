"""The 48 cells that `make demo` measures are, to the last bit, those that were frozen."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.repo import record_files
from tests.repo.record_files import Row

GOLDEN = Path(__file__).parents[1] / "golden" / "first_light.json"
CELL = ("layout", "hidden", "routing", "tokens", "arm")


def records(folder: Path) -> list[Row]:
    """The rows of every record file of a folder, in order of file name."""
    return [row for path in sorted(folder.glob("records/*/*.parquet")) for row in record_files.read(path).rows]


def latencies(rows: Iterable[Row]) -> dict[tuple[str | int, ...], float]:
    """Latency of each cell in us: the maximum over its Attention ranks."""
    found: dict[tuple[str | int, ...], float] = {}
    for row in rows:
        if row["role"] == "attention":
            cell = tuple(row[name] for name in CELL)
            found[cell] = max(row["latency_us"], found.get(cell, 0.0))
    return found


def frozen() -> dict[tuple[str | int, ...], float]:
    entries = json.loads(GOLDEN.read_text("utf-8"))
    return {tuple(entry[name] for name in CELL): entry["latency_us"] for entry in entries}


@pytest.fixture(scope="module")
def kept(root: Path) -> list[Row]:
    return records(root / "records" / "screen" / "first-light")


def test_every_kept_cell_of_the_demo_has_its_frozen_latency(kept: list[Row]) -> None:
    assert len(frozen()) == 48
    assert {row["status"] for row in kept} == {"ok"}
    assert latencies(kept) == frozen()


def test_a_last_bit_of_one_rank_is_noticed(kept: list[Row]) -> None:
    slowest = max((row for row in kept if row["role"] == "attention"), key=lambda row: row["latency_us"])
    altered = {**slowest, "latency_us": float.fromhex("0x1.0000000000001p+0") * slowest["latency_us"]}
    assert latencies([*kept, altered]) != frozen()


def test_a_cell_that_is_missing_is_noticed(kept: list[Row]) -> None:
    assert latencies(row for row in kept if row["tokens"] != 1) != frozen()


def test_ffn_ranks_do_not_count(kept: list[Row]) -> None:
    slow = [{**row, "latency_us": 1e6} if row["role"] == "ffn" else row for row in kept]
    assert latencies(slow) == frozen()
