#!/usr/bin/env python3
"""Recompute the published figures that other published figures give, and print how far apart they are.

    python3 records/published/recompute.py

Two lists: each percent against the two medians of its own table (published changes are geometric means of paired
repeats, so they need not agree to the digit), and figures that another table or plain arithmetic gives as well.
Deviations are printed, never judged: they are properties of the published record.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from check import COLUMNS, KEY_COLUMNS, NUMBER, RATIO_OF, Row, read

CONTEXT = [name for name in KEY_COLUMNS if name not in {"arm", "vs_arm", "metric", "collect", "transport_sms"}]
ALL_SPARSE = "afdep[stagger+sparse-dispatch+sparse-combine]"
SHARED = "afdep[AFDEP_SHARED_ROLE_KERNELS=1]"
SHARED_FFN = "afdep[AFDEP_SHARED_FFN_RECEIVE=1]"
CAPPED = "afdep[AFDEP_COUNT_FIRST_MIN_BUCKET=1,AFDEP_COUNT_FIRST_EPILOGUE_SMS=64]"
BASELINE = "fastafd_m2n"


class Twin(NamedTuple):
    """A published figure and the same quantity from elsewhere in the record."""

    what: str
    published: float
    again: float


class Percent(NamedTuple):
    """A published percent and the one that the medians of its table give, in percent."""

    row: Row
    exact: float
    deviation: float
    beyond_rounding: float


def percent(new: float, old: float) -> float:
    """Return the change from old to new in percent."""
    return (new / old - 1) * 100


def interval(row: Row) -> tuple[float, float]:
    """Return the published value as (low, high), widened by half a unit of its last printed digit."""
    decimals = [len(number.partition(".")[2]) for number in NUMBER.findall(row["raw"])]
    half = 0.5 * 10.0 ** -min(decimals)
    return float(row["value_low"] or row["value"]) - half, float(row["value_high"] or row["value"]) + half


def gap(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the distance between two intervals, 0 when they touch."""
    return max(0.0, a[0] - b[1], b[0] - a[1])


class Figures:
    """The rows of tables.csv, looked up by table, metric and column values."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.absolute: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row in rows:
            if not row["vs_arm"]:
                self.absolute[(*(row[name] for name in CONTEXT), row["metric"], row["arm"])].append(row)

    def select(self, table: str, metric: str, **want: str | int) -> list[Row]:
        wanted = {"table_id": table, "metric": metric, **{name: str(value) for name, value in want.items()}}
        return [row for row in self.rows if all(row[name] == value for name, value in wanted.items())]

    def row(self, table: str, metric: str, **want: str | int) -> Row:
        """Return the only such row; LookupError when there is none or more than one."""
        hits = self.select(table, metric, **want)
        if len(hits) != 1:
            raise LookupError(f"{table} {metric} {want}: expected one row, found {len(hits)}\nrun check.py first")
        return hits[0]

    def value(self, table: str, metric: str, **want: str | int) -> float:
        return float(self.row(table, metric, **want)["value"])

    def span(self, table: str, metric: str, **want: str | int) -> tuple[float, float]:
        """Return the least and the largest published value."""
        rows = self.select(table, metric, **want)
        return (
            min(float(row["value_low"] or row["value"]) for row in rows),
            max(float(row["value_high"] or row["value"]) for row in rows),
        )

    def absolute_of(self, row: Row, arm: str) -> Row | None:
        """Return the absolute figure of an arm at the same point as a percent, if its table has one."""
        metric = RATIO_OF[row["metric"]]
        if metric == "memory_mb":  # union sizing has no layout of its own
            candidates = self.select(row["table_id"], metric, arm=arm)
            hits = [hit for hit in candidates if hit["layout"] in ("", row["layout"])]
        else:
            collect = "view" if arm.endswith("[view]") else row["collect"]
            key = (*(row[name] for name in CONTEXT), metric, arm.removesuffix("[view]"))
            hits = [hit for hit in self.absolute[key] if hit["collect"] == collect]
        return hits[0] if len(hits) == 1 else None


def percents(figures: Figures) -> Iterator[Percent]:
    """Yield each percent whose two absolute figures stand in its table."""
    for row in figures.rows:
        if row["metric"] not in RATIO_OF:
            continue
        new, old = figures.absolute_of(row, row["arm"]), figures.absolute_of(row, row["vs_arm"])
        if new is None or old is None:
            continue
        (new_low, new_high), (old_low, old_high) = interval(new), interval(old)
        exact = percent(float(new["value"]), float(old["value"]))
        possible = percent(new_low, old_high), percent(new_high, old_low)
        yield Percent(row, exact, float(row["value"]) - exact, gap(interval(row), possible))


def from_arithmetic(f: Figures) -> Iterator[Twin]:
    """Yield sizes and counts that follow from the record formats."""
    union = f.value("s4-memory", "memory_mb", arm=BASELINE)
    yield Twin("union window at 4 ranks, MB (4 x 2048 x 4224 B)", union, 4 * 2048 * 4224 / 1e6)
    for layout, regions, row_bytes in (("2A2F", 2, 4224), ("3A1F", 3, 4224), ("1A3F", 3, 4160)):
        window = f.value("s4-memory", "memory_mb", layout=layout)
        yield Twin(f"{layout} window, MB ({regions} x 2048 x {row_bytes} B)", window, regions * 2048 * row_bytes / 1e6)
    for hidden in (4096, 7168, 8192):
        fp8, bf16 = hidden + -(-(hidden // 128) // 32) * 32, 2 * hidden + 64
        change = f.value("s19-rowbytes", "row_bytes_change_pct", hidden=hidden)
        yield Twin(f"FP8 reply row at H={hidden}, percent ({fp8} against {bf16} B)", change, percent(fp8, bf16))
    yield Twin("finish atomics at 11:1 (11 x 192)", f.value("s17-signals", "signal_count"), 11 * 192)
    yield Twin("atomics at 3 sources (2 x 192 x 3)", f.value("an-channel-slope", "signal_count"), 2 * 192 * 3)


def across_domains(f: Figures) -> Iterator[Twin]:
    """Yield the gains by number of domains against the tables they come from."""
    tables = {
        "1F:1A x2": "s7-cross-node",
        "1F:2A x2": "s6-three-node",
        "2F:2A x1": "s6-2f2a-x1",
        "2F:3A x1": "s6-2f3a-x1",
    }
    for domains, table in tables.items():
        afdep, baseline = (f.value(table, "latency_us", arm=arm, tokens=1) for arm in ("afdep", BASELINE))
        published = f.value("s6-domain-growth", "change_pct", domains=domains)
        yield Twin(f"s6-domain-growth {domains} against {table}", published, percent(afdep, baseline))
    for arm in ("afdep", BASELINE, "afdep[direct]"):
        one, two = (f.value("an-extra-domain", "latency_us", arm=arm, layout=layout) for layout in ("4A4F", "8A4F"))
        published = f.value("an-extra-domain", "latency_per_domain_us", arm=arm)
        yield Twin(f"per extra Attention domain, {arm}, us", published, two - one)


def sparse(f: Figures) -> Iterator[Twin]:
    """Yield the sparse protocol's one-token times and its baseline, across the tables of section 17."""
    table = "s17-12pod-ablation"
    for arm in ("afdep[stagger+sparse-dispatch]", ALL_SPARSE):
        factor = 1 + f.value(table, "change_pct", arm=arm, tokens=1) / 100
        published = f.value("s17-nonadditive", "latency_us", arm=arm)
        yield Twin(f"s17-nonadditive {arm}, us at T=1", published, f.value(table, "latency_us", tokens=1) * factor)
    for tokens in (1, 8, 16, 32, 64, 128):
        factor = 1 + f.value("s17-200944ce", "change_pct", vs_arm=BASELINE, tokens=tokens) / 100
        implied = f.value("s17-200944ce", "latency_us", arm=ALL_SPARSE, tokens=tokens) / factor
        dense = f.value("s17-200944ce", "latency_us", arm="afdep-1.0.0", tokens=tokens)
        published = f.value(table, "change_pct", arm=BASELINE, tokens=tokens)
        yield Twin(f"s17 baseline over dense at T={tokens}, percent", published, percent(implied, dense))


def launches(f: Figures) -> Iterator[Twin]:
    """Yield SM time, the epilogue cap and the baseline's slowdown of sections 14 and 16."""
    for layout in ("3A1F", "2A2F"):
        new, old = (f.value("s16-load", "latency_us", arm=arm, layout=layout) for arm in (CAPPED, "afdep"))
        published = f.value("s16-more", "change_pct", arm=CAPPED, layout=layout)
        yield Twin(f"s16 64-SM cap at {layout}, percent, from the load table", published, percent(new, old))
    new, old = (f.value("s14-sm-us", "sm_us", part="ffn", tokens=1, arm=arm) for arm in ("afdep", SHARED))
    yield Twin("s14 FFN SM-us at one token, percent", f.value("s14-cta-timers", "sm_us_change_pct"), percent(new, old))
    for tokens in (1, 512):
        used, held = (f.value("s14-cta-timers", metric, tokens=tokens) for metric in ("sm_us_used", "sm_us"))
        published = f.value("s14-cta-timers", "sm_used_pct", tokens=tokens)
        yield Twin(f"s14 used share of SM time at {tokens}, percent", published, 100 * used / held)
    slower = []
    for row in f.select("s14-latency", "latency_us", arm=BASELINE):
        afdep = f.value("s14-latency", "latency_us", arm="afdep", layout=row["layout"], tokens=row["tokens"])
        slower.append(percent(float(row["value"]), afdep))
    note = f.row("s14-latency-notes", "change_pct", arm=BASELINE)
    yield Twin("s14 baseline slowdown, least", float(note["value_low"]), min(slower))
    yield Twin("s14 baseline slowdown, most", float(note["value_high"]), max(slower))


def under_load(f: Figures) -> Iterator[Twin]:
    """Yield the GEMM slowdowns of the result section against the load tables."""
    parts = (
        ("ffn", "s15-load", ("afdep", SHARED_FFN, BASELINE)),
        ("attention", "s14-overlap", ("afdep", SHARED, BASELINE)),
    )
    for part, table, arms in parts:
        solo = f.value(table, "gemm_us", arm="solo")
        for arm in arms:
            row = f.row("result-gemm-load", "gemm_change_pct", part=part, arm=arm)
            low, high = f.span(table, "gemm_us", arm=arm, part=part)
            what = f"{part} GEMM over solo ({solo:g} us), {arm}"
            yield Twin(f"{what}, least", float(row["value_low"]), percent(low, solo))
            yield Twin(f"{what}, most", float(row["value_high"]), percent(high, solo))


def at_three_to_one(f: Figures) -> Iterator[Twin]:
    """Yield shares and bandwidths of the 3:1 analysis from its kernel times."""
    total = f.value("an-3to1-kernels", "latency_us", layout="3A1F", tokens=2048)
    moved_mb = 3 * 2048 * 4096 / 1e6
    traffic_mb = {"ffn:combine": moved_mb * 8, "ffn:copy-epilogue": moved_mb * 8, "attention:dispatch-send": moved_mb}
    for part, traffic in traffic_mb.items():
        time = f.value("an-3to1-kernels", "kernel_us", layout="3A1F", tokens=2048, part=part)
        share = f.value("an-3to1-bandwidth", "share_pct", part=part)
        yield Twin(f"3A1F {part} share, percent", share, 100 * time / total)
        if part != "attention:dispatch-send":
            rate = f.value("an-3to1-bandwidth", "bandwidth_tb_s", part=part + ":hbm")
            yield Twin(f"3A1F {part}, TB/s", rate, traffic / time)
        if part != "ffn:copy-epilogue":
            rate = f.value("an-3to1-bandwidth", "bandwidth_gb_s", part=part + ":nvlink")
            yield Twin(f"3A1F {part}, GB/s over NVLink", rate, moved_mb / time * 1e3)


def generic_changes(f: Figures) -> Iterator[Twin]:
    """Yield the gains of R1 and R2 on the baseline."""

    def gain(arm: str, tokens: int) -> float:
        new, old = (f.value("r1r2-audit", "latency_us", arm=name, tokens=tokens) for name in (arm, BASELINE))
        return percent(new, old)

    unroll, split = f"{BASELINE}[unroll2]", f"{BASELINE}[split]"
    largest = min(gain(unroll, tokens) for tokens in (1, 32, 128, 2048))
    published = f.value("r1r2-notes", "change_pct", arm=unroll)
    yield Twin("r1 unroll 2 on the baseline, largest gain, percent", published, largest)
    published = f.value("r1r2-notes", "change_pct", arm=split)
    yield Twin("r2 split on the baseline at 32, percent", published, gain(split, 32))


TOPICS = (from_arithmetic, across_domains, sparse, launches, under_load, at_three_to_one, generic_changes)


def print_percents(figures: Figures) -> None:
    """Print, per table, the percent that deviates most from its medians."""
    by_table: dict[str, list[Percent]] = defaultdict(list)
    for item in percents(figures):
        by_table[item.row["table_id"]].append(item)
    print(f"{'table':22}{'n':>4}{'max |dev|':>11}{'beyond rounding':>17}   where the largest deviation is")
    for table, items in by_table.items():
        worst = max(items, key=lambda item: abs(item.deviation))
        beyond = max(item.beyond_rounding for item in items)
        row = worst.row
        place = f"{row['layout']} T={row['tokens']} {row['arm']} vs {row['vs_arm']}"
        numbers = f"{len(items):4}{abs(worst.deviation):11.2f}{beyond:17.2f}"
        print(f"{table:22}{numbers}   {place}: {row['raw']} against {worst.exact:+.2f}")


def main() -> int:
    """Print both lists."""
    figures = Figures(read("tables.csv", COLUMNS))
    print_percents(figures)
    print(f"\n{'published':>10} {'again':>10} {'apart':>8}   figures that another table or arithmetic also gives")
    for topic in TOPICS:
        for what, published, again in topic(figures):
            print(f"{published:10.5g} {again:10.5g} {again - published:+8.2f}   {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
