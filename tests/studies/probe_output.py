"""What the probes print, made up: for each group its lines, and a program that prints them."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from harness.records import table
from harness.report.results import Part, Results
from harness.studies.calibrate import program
from harness.studies.calibrate.program import Record, Trial
from harness.studies.calibrate.rules import WARPS, Place
from harness.study import Batch, Ended
from tests.studies.bench import settings_of

SETTINGS = settings_of("calibrate", "base=h100-nvlink")
"""Beside a machine that no calibration changes."""
MACHINE = {
    "device": "NVIDIA H200",
    "gpus": 2,
    "cuda_driver": 13000,
    "cuda_runtime": 13000,
    "most_sm_mhz": 1980,
    "memory_mhz": 3201,
}
RATES = ("sm_load", "sm_bulk", "device", "push", "push_both_ways")
UNITS = {"attribute": "count", "sm_clock": "MHz", **dict.fromkeys(RATES, "GB/s")}
CTAS = (1, 2, 4, 8, 16, 24, 64, 132)

CORE: Mapping[Place, float] = {
    Place("attribute", "sm_count"): 132,
    Place("attribute", "threads_per_sm"): 2048,
    Place("attribute", "shared_bytes_per_sm"): 233472,
    Place("attribute", "shared_bytes_per_cta"): 232448,
    Place("sm_clock", "core"): 1980,
    **{Place("cta_barrier", "warps", warps): 20.0 + warps for warps in WARPS},
    Place("syncwarp", "warp"): 3,
    Place("shuffle", "warp"): 13,
    Place("shared", "load"): 17,
    Place("word", "acquire"): 500,
    Place("word", "relaxed"): 260,
    Place("fence", "alone"): 300,
    Place("store", "burst"): 4,
    Place("atomic", "one_word", 24): 520,
    Place("accumulate", "warps", 32): 70,
}
MEMORY: Mapping[Place, float] = {
    Place("latency", "l2_low"): 200,
    Place("latency", "l2_mean"): 250,
    Place("latency", "hbm_low"): 560,
    **{
        Place("sm_load", f"{memory}{taken}", ctas, 512): rate
        for taken, rate in (("", 125.0), ("_full_shared", 68.0))
        for memory in ("l2", "hbm")
        for ctas in (1, 8, 24, 64, 132)
    },
    Place("sm_bulk", "l2", 1, 4096): 100,
    Place("sm_bulk", "hbm", 24, 4096): 38,
    Place("device", "l2_read", 264, 512): 6000,
    Place("device", "hbm_copy", 264): 3900,
    Place("bulk_once", "issue", 1, 512): 20,
    Place("bulk_once", "whole", 1, 512): 600,
}
LAUNCH: Mapping[Place, float] = {
    Place("timer_step", "launch"): 32,
    Place("graph_period", "plain", 24): 560,
    Place("graph_period", "cooperative", 24): 760,
    Place("cta_turn", "same_sm"): 150,
    Place("programmatic", "trigger_to_begin", 24): 900,
    Place("programmatic", "end_to_release", 24): 430,
    Place("grid_sync", "cooperative", 24): 1300,
}
FIRST_USE: Mapping[Place, float] = {
    **{Place("code", "four_in_turn", 24, strides * 512): 20.0 * strides for strides in (8, 16, 32, 64)},
    Place("arguments", "one_by_one", 24, 1280): 33,
    Place("page", "first_load", 24): 195,
}
LINK: Mapping[Place, float] = {
    Place("flag", "relaxed"): 720,
    Place("flag", "ordered"): 1280,
    **{Place("push", "bulk", ctas, 4096): 365.0 for ctas in CTAS},
    **{Place("push", "bulk", ctas, 512): 340.0 for ctas in CTAS},
}
GROUPS = {"core": CORE, "memory": MEMORY, "launch": LAUNCH, "first_use": FIRST_USE, "link": LINK}


def lines(group: str, changed: Mapping[Place, float] | None = None, without: str = "") -> list[str]:
    """The lines of a group, with other values at some places, or without a probe."""
    values = {place: (changed or {}).get(place, value) for place, value in GROUPS[group].items()}
    printed = [json.dumps(_reading(place, value)) for place, value in values.items() if place.probe != without]
    return [json.dumps(MACHINE), *printed]


def _reading(place: Place, value: float) -> dict[str, object]:
    """Five samples around a value, one of them for what does not vary."""
    steps = (0,) if place.probe == "attribute" else (-2, -1, 0, 1, 2)
    samples = [value * (1 + 0.01 * step) for step in steps]
    return {**vars(place), "unit": UNITS.get(place.probe, "ns"), "samples": samples}


def rows_of(group: str, output: str, fault: str | None = None) -> list[Record]:
    """The rows of what a group printed, and why it did not come to its end."""
    found = program.parsed(group, output.encode(), fault)
    machine = next((one for one in found if "device" in one), {})
    readings = [one for one in found if "probe" in one]
    plan = SimpleNamespace(settings=SimpleNamespace(probes_hash="c0123"))
    return program.judge(plan, Batch(()), Trial(group), Ended({0: {"readings": readings}}, {0: machine}))


def measured(changed: Mapping[Place, float] | None = None, without: str = "", **instead: list[Record]) -> list[Record]:
    """What comes of it, with other rows for some groups."""
    usual = {group: rows_of(group, "\n".join(lines(group, changed, without))) for group in GROUPS}
    return [row for rows in (usual | instead).values() for row in rows]


def lay_program(path: Path) -> Path:
    """A program that prints these lines for the group that it is asked for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for group in GROUPS:
        (path.parent / f"{group}.txt").write_text("\n".join(lines(group)) + "\n")
    path.write_text('#!/bin/sh\nexec cat "$(dirname "$0")/$1.txt"\n')
    path.chmod(0o755)
    return path


def results(readings: list[Record], name: str = "example", **stamped) -> Results:
    """Readings as the records of one plan."""
    rows = tuple({**vars(row), "machine": MACHINE["device"], **stamped, "table": Record.table} for row in readings)
    plan = SimpleNamespace(
        settings=SETTINGS, format=2, trees=(), measuring_digest="m01", machine_digest=None, plan_hash="p01"
    )
    file = SimpleNamespace(
        plan=plan,
        plan_hash="p01",
        created="2026-01-02T00:00:00+00:00",
        command="afdep-bench calibrate",
        rounds=lambda: (),
    )
    return Results("calibrate", name, (Part(file, table.Reading(rows)),))


def example() -> Results:
    """A calibration with a void constant, a kept one and a void probe."""
    silent = rows_of("launch", "\n".join(lines("launch", without="grid_sync")))
    flag = '{"probe": "flag", "void": "a flag did not come"}'
    void = rows_of("link", "\n".join([*lines("link", without="flag"), flag]))
    readings = measured({Place("device", "hbm_copy", 264): 9000.0}, launch=silent, link=void)
    return results(readings, driver="580.95.05")
