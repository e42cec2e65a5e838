#!/usr/bin/env python3
"""Validate tables.csv and claims.csv: columns, types, keys, row counts and every value against its printed literal.

    python3 records/published/check.py

Needs the standard library only. Exit status 1, with one line per fault, on a malformed file. The row counts that it
expects are those of the tables in README.md beside this file. recompute.py compares the figures with one another.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
Row = dict[str, str]

COLUMNS = (
    "table_id section layout domains nodes_gpus gpu hidden experts top_k capacity dtype routing collect mode tokens "
    "arm vs_arm metric value value_low value_high repeats native_digest source_note origin transport_sms load part "
    "tokens_to bound inferred raw src_line"
).split()
CLAIM_COLUMNS = "id section kind statement numbers layout how_to_check needs table_id".split()
NOT_IN_KEY = set(
    "value value_low value_high repeats native_digest source_note origin bound inferred raw src_line".split()
)
KEY_COLUMNS = [column for column in COLUMNS if column not in NOT_IN_KEY]
REQUIRED = "table_id section arm metric value source_note raw src_line".split()
CLAIM_REQUIRED = "id section statement layout how_to_check needs".split()
INTEGERS = "hidden experts top_k capacity tokens tokens_to transport_sms repeats src_line".split()
CHOICES = {
    "gpu": {"", "H100", "H200"},
    "dtype": {"", "bf16", "fp8"},
    "routing": {"", "random", "skew", "spread"},
    "collect": {"", "copy", "view"},
    "mode": {"", "graph", "eager"},
    "origin": {"table", "prose"},
    "load": {"", "none", "gemm"},
    "bound": {"", "about", "up_to", "abs_le"},
}
CLAIM_KINDS = set(
    "latency memory correctness negative-control fault-injection rejected-experiment decision-rule accuracy".split()
)
# a percent metric and the absolute metric that it is a ratio of
RATIO_OF = {
    "change_pct": "latency_us",
    "memory_change_pct": "memory_mb",
    "gemm_change_pct": "gemm_us",
    "sm_us_change_pct": "sm_us",
    "row_bytes_change_pct": "row_bytes",
}
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
DECIMAL = re.compile(r"-?\d+(\.\d+)?")
LAYOUT = re.compile(r"\d+A\d+F")
DIGEST = re.compile(r"[0-9a-f]{8}(\|[0-9a-f]{8})*|")
COUNT_ROW = re.compile(r"^\| ([\w-]+) \| [^|]+ \| (\d+) \|", re.MULTILINE)
COUNT_LINE = re.compile(r"^- `(tables|claims)\.csv`: (?:one row per number\. )?(\d+)", re.MULTILINE)
MINUS = "\N{MINUS SIGN}"


def key(row: Row) -> tuple[str, ...]:
    """Return what no two rows of tables.csv may share."""
    return tuple(row[column] for column in KEY_COLUMNS)


def read(name: str, columns: list[str]) -> list[Row]:
    """Read one file; exit when its columns are not the expected ones."""
    with (FOLDER / name).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != columns:
            sys.exit(f"{name}: expected columns {columns}\nreceived {reader.fieldnames}; restore the header line")
        return list(reader)


def numbers_in(raw: str) -> list[float]:
    """Return the unsigned numbers of a printed literal."""
    return [float(number.replace(",", "")) for number in NUMBER.findall(raw)]


def literal_agrees(row: Row) -> bool:
    """Whether value, value_low and value_high are what the printed literal says."""
    value, printed = float(row["value"]), numbers_in(row["raw"])
    if row["bound"] == "abs_le":
        return value == 0 and float(row["value_high"]) == -float(row["value_low"]) == printed[0]
    if len(printed) == 2:
        low, high = float(row["value_low"] or "nan"), float(row["value_high"] or "nan")
        middle = abs(value - (low + high) / 2) < 1e-9
        return low <= high and middle and sorted((abs(low), abs(high))) == sorted(printed)
    sign_differs = (row["raw"][0] == MINUS and value > 0) or (row["raw"][0] == "+" and value < 0)
    return not row["value_low"] and abs(abs(value) - printed[0]) < 1e-9 and not sign_differs


def type_faults(row: Row) -> Iterator[str]:
    """Yield what is wrong with single fields of a row."""
    yield from (f"empty {column}" for column in REQUIRED if not row[column])
    for column in INTEGERS:
        if row[column] and not row[column].isdecimal():
            yield f"{column} is not an integer: {row[column]!r}"
    for column, allowed in CHOICES.items():
        if row[column] not in allowed:
            yield f"{column} is {row[column]!r}, not one of {sorted(allowed)}"
    if row["layout"] and not all(LAYOUT.fullmatch(layout) for layout in row["layout"].split("|")):
        yield f"layout is {row['layout']!r}, not of the form 2A2F"
    for column in ("value", "value_low", "value_high"):
        if row[column] and not DECIMAL.fullmatch(row[column]):
            yield f"{column} is not a number: {row[column]!r}"
    if not NUMBER.search(row["raw"]):
        yield f"raw holds no number: {row['raw']!r}"
    if row["bound"] == "abs_le" and not row["value_high"]:
        yield "bound is abs_le, but the range is empty"
    if not DIGEST.fullmatch(row["native_digest"]):
        yield f"native_digest is {row['native_digest']!r}, not eight hexadecimal digits"


def agreement_faults(row: Row) -> Iterator[str]:
    """Yield where fields of a row contradict one another."""
    if bool(row["value_low"]) != bool(row["value_high"]):
        yield "half a range"
    for column in filter(None, row["inferred"].split(";")):
        if column not in COLUMNS or not row[column]:
            yield f"inferred names {column!r}, which is blank or unknown"
    if row["metric"].endswith("change_pct") and not row["vs_arm"]:
        yield "a percent without vs_arm"
    if row["metric"] in RATIO_OF.values() and row["vs_arm"]:
        yield "an absolute value with vs_arm"
    if row["gpu"] and row["nodes_gpus"] and row["gpu"] not in row["nodes_gpus"]:
        yield "gpu and nodes_gpus disagree"
    if not literal_agrees(row):
        yield f"value {row['value']} [{row['value_low']}, {row['value_high']}] is not the literal {row['raw']!r}"


def table_faults(rows: list[Row]) -> Iterator[str]:
    """Yield the faults of tables.csv, row by row, then of its keys and counts."""
    first_line: dict[tuple[str, ...], int] = {}
    for line, row in enumerate(rows, 2):
        faults = list(type_faults(row)) or list(agreement_faults(row))
        yield from (f"tables.csv line {line} ({row['table_id']}): {fault}" for fault in faults)
        if (seen := first_line.setdefault(key(row), line)) != line:
            yield f"tables.csv line {line} ({row['table_id']}): same key as line {seen}"
    counted = Counter(row["table_id"] for row in rows)
    expected = {name: int(count) for name, count in COUNT_ROW.findall((FOLDER / "README.md").read_text("utf-8"))}
    for name in sorted(counted.keys() | expected.keys()):
        if counted[name] != expected.get(name, 0):
            yield f"{name}: {counted[name]} rows, README.md says {expected.get(name, 0)}"


def claim_faults(claims: list[Row], table_ids: set[str]) -> Iterator[str]:
    """Yield the faults of claims.csv."""
    for name, uses in Counter(claim["id"] for claim in claims).items():
        if uses > 1:
            yield f"claims.csv: id {name} is used {uses} times"
    for claim in claims:
        if claim["kind"] not in CLAIM_KINDS:
            yield f"claims.csv {claim['id']}: kind {claim['kind']!r} is not one of {sorted(CLAIM_KINDS)}"
        if claim["table_id"] and claim["table_id"] not in table_ids:
            yield f"claims.csv {claim['id']}: no table {claim['table_id']!r} in tables.csv"
        yield from (f"claims.csv {claim['id']}: empty {column}" for column in CLAIM_REQUIRED if not claim[column])


def total_faults(num_rows: int, num_claims: int) -> Iterator[str]:
    """Yield where the totals are not those that README.md states."""
    stated = {name: int(count) for name, count in COUNT_LINE.findall((FOLDER / "README.md").read_text("utf-8"))}
    for name, count in (("tables", num_rows), ("claims", num_claims)):
        if stated.get(name) != count:
            yield f"{name}.csv: {count} rows, README.md says {stated.get(name)}"


def main() -> int:
    """Check both files, print the faults and a summary, return the exit status."""
    rows, claims = read("tables.csv", COLUMNS), read("claims.csv", CLAIM_COLUMNS)
    table_ids = {row["table_id"] for row in rows}
    faults = [*table_faults(rows), *claim_faults(claims, table_ids), *total_faults(len(rows), len(claims))]
    for fault in faults:
        print("ERROR", fault)
    print(f"{len(rows)} figures under {len(table_ids)} ids, {len(claims)} claims: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
