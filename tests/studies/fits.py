"""Fits for the tests: settings of a few cells, and simulators whose round trips are powers of the constants."""

import copy
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from afdep import Machine, native_digest
from harness.config.compose import compose
from harness.core import plan as plans
from harness.core.identity import Identity
from harness.core.plan import Plan, PlannedArm, Tree, Workspace
from harness.ranks.cells import Backend, DeviceTiming, Exchange, Floor, Row
from harness.records import table
from harness.studies.fit import program, settings
from harness.studies.fit.fit import FILE, FITTED, NO_EFFECT, Cell, Constant, Fit, Search, Series, Settings, Source
from harness.studies.screen import program as screen
from harness.study import Ended
from tests.studies.bench import ROOT, desk_at, settings_of

LATENCY, RATE, HBM = "nvlink_latency_ns", "nvlink_gb_per_s", "hbm_gb_per_s"
MACHINE = "h100-nvlink"
"""One that no calibration changes, so that it stays known which of its constants may be fitted."""
SMALL = ("layout=[2A2F,3A1F]", "hidden=2048", "dtype=bf16", "routing=random")
"""Two rows of the published table, fitted on the first alone, six tokens."""

Us = Callable[[Settings, program.Trial], float]


def golden(kind: str) -> dict[str, Any]:
    """What fits of these settings found before they were rounds of cells."""
    path = ROOT / "tests" / "studies" / "golden" / "fits.json"
    return json.loads(path.read_text("utf-8"))[kind]  # type: ignore[no-any-return]


def published(*texts: str, free=None, only=None, root=ROOT) -> Settings:
    """Settings of a fit to the published table, of these constants alone, with slopes of these alone."""
    read = settings_of("fit", "fit.pull_pct=0", *texts, root=root)
    read = read if only is None else studied(read, only)
    return read if free is None else with_free(read, free)


def studied(read: Settings, names) -> Settings:
    """The settings with slopes of these constants alone."""
    known = {one.name: FILE if one.kind == NO_EFFECT else one.kind for one in read.constants}
    kinds = {name: kind if name in names else NO_EFFECT for name, kind in known.items()}
    return replace(read, constants=tuple(replace(one, kind=kinds[one.name]) for one in read.constants))


@cache
def two_rows() -> Settings:
    return published(*SMALL, only=[LATENCY, RATE, HBM, "fence_ns", "atomic_ns"], free=[LATENCY, RATE])


def with_free(read: Settings, names) -> Settings:
    """The settings with these constants free: bounds a factor of three either way."""
    return replace(read, free=tuple(names), constants=tuple(_free(one, names) for one in read.constants))


def _free(one: Constant, names) -> Constant:
    if one.name in names:
        return replace(one, kind=FITTED, lower=one.value / 3, upper=one.value * 3)
    return replace(one, kind=FILE) if one.kind == FITTED else one


def with_targets(read: Settings, us_of: Us, **changes: float) -> Settings:
    """The settings with other figures: what a simulator gives with these constants changed."""
    trials = [program.Trial(at, 1, tuple(sorted(changes.items()))) for at in range(len(read.cells))]
    return with_us(read, [us_of(read, one) for one in trials])


def with_us(read: Settings, us) -> Settings:
    """The settings with these figures, whose changes are the ratios of the arms."""
    changes = [100 * (us[at] / us[at - 1] - 1) if one.arm else None for at, one in enumerate(read.cells)]
    cells = (replace(one, us=own, change_pct=change) for one, own, change in zip(read.cells, us, changes, strict=True))
    return replace(read, cells=tuple(cells))


def simulated(read: Settings, trial: program.Trial) -> float:
    """The round trip of a cell as the simulator gives it."""
    return judged(read, trial, program.simulate(read, trial, program.world(read, trial))).latency_us


def judged(read: Settings, trial: program.Trial, samples) -> program.Record:
    """The row of a trial that said this."""
    return program.judge(SimpleNamespace(settings=read), None, trial, Ended({0: {"samples_us": samples}}))[0]


def powers_of(powers: Callable[[Settings, int], Mapping[str, float]]) -> Us:
    """Round trips that are a product of powers: `powers` gives each constant's exponent in a cell."""

    def us(read: Settings, trial: program.Trial) -> float:
        values = read.values | dict(trial.changes)
        return 10.0 * math.exp(sum(power * math.log(values[name]) for name, power in powers(read, trial.cell).items()))

    return us


def by_arm(read: Settings, at: int) -> Mapping[str, float]:
    """Latency counts for the baseline and with few tokens, the link's rate with many."""
    cell = read.cells[at]
    share = math.log2(cell.tokens) / 11
    return {LATENCY: (0.2 if cell.arm else 0.4) * (1 - share), RATE: -0.8 * share, HBM: -0.1 * share**2}


POWERS = powers_of(by_arm)


def rows_of(read: Settings, us_of: Us | None = None) -> list[program.Record]:
    """All rows of a fit, round after round; simulated where no function gives the round trips."""
    done: list[program.Record] = []
    while blocks := program.blocks(read, done):
        trials = [trial for block in blocks for batch in block.batches for trial in batch.trials]
        done += [_row(read, trial, us_of) for trial in trials]
    return done


def _row(read: Settings, trial: program.Trial, us_of: Us | None) -> program.Record:
    if us_of is None:
        return judged(read, trial, program.simulate(read, trial, program.world(read, trial)))
    return judged(read, trial, [[us_of(read, trial)] * trial.num_exchanges])


def solved(read: Settings, us_of: Us | None = None) -> Fit:
    """The fit of these settings."""
    return program.solved(read, rows_of(read, us_of))


def steps_of(fit: Fit) -> Any:
    """The points that a fit tried: rms, cost and constants of each."""
    return np.array([[one.rms_pct, one.cost, *one.values] for one in fit.steps])


# Measured screens without a device.
HOST = DeviceTiming("host", 0, 12, 3, 10, "auto")
FREE = replace(HOST, rendezvous="device", least_replay_us=2000)
ROW = Row("1A1F", 2048, "bf16", "random", 128)
WIDE = replace(ROW, hidden=4096)
DIGEST = str(native_digest("cuda"))
REPLAY = 20
FACTS = {"gpus": 2, "device": "NVIDIA H200"}


def screened(
    *rows: Row, device=HOST, tokens=(1, 8), arms=("m2n", "afdep"), digest=DIGEST, replay=REPLAY, **more
) -> Plan:
    """A plan of screens on GPUs, as `screen plan` makes it."""
    backend = Backend("cuda", "h200-nvlink", more.pop("pairs", 2), replay, 3, 1, device, Floor(500.0, 343.0))
    exchange = replace(Exchange(8, 2048, None, 24, "copy", "graph", 0), **more)
    told = screen.Settings("h200", rows or (ROW,), tokens, tuple(map(screen.ArmChoice, arms)), exchange, backend)
    planned = tuple(PlannedArm(arm, 0, "cuda", Identity(digest, arm)) for arm in arms)
    tree = Tree("working", (("cuda", digest),), "t0123456789abcdef")
    blocks = tuple(screen.blocks(told, ()))
    return Plan("screen", "h200", told, (tree,), planned, "m0123456789abcdef", None, blocks)


def lay(folder, plan: Plan, us_of, end=lambda place, pair: "ok"):
    """Write a plan and its records.

    Args:
        folder: as records/NAME of an archive.
        plan: the plan.
        us_of: gives a cell's round trip in us by its place: series, tokens and arm.
        end: gives `ok`, `void`, `failed`, or `missing`, by place and pair.
    """
    workspace = Workspace(folder)
    file = plans.save(workspace.plans, plan, "2026-01-02T00:00:00+00:00", "afdep-bench screen plan")
    for number, batch in enumerate(batch for block in plan.blocks for batch in block.batches):
        rows = [row for trial in batch.trials for row in _cell(plan, batch, trial, us_of, end)]
        if rows:
            table.write(workspace.records(file.plan_hash), f"0-{number:04d}", rows)
    return folder


def _cell(plan: Plan, batch, trial, us_of, end):
    """Two ranks, the FFN's a little faster; samples around their median."""
    told, arm = plan.settings, plan.settings.arms[trial.arm].name
    place = SimpleNamespace(series=Series(told.rows[trial.row], told.exchange), tokens=trial.tokens, arm=arm)
    ending, us = end(place, trial.pair), us_of(place)
    if ending == "missing":
        return []
    loaded = {"loaded_digest": plan.arms[trial.arm].identity.digest, "loaded_protocol": arm, "loaded_switches": ""}
    more = {"proofs": 3, "least_bytes": 0, "exchanges": told.backend.num_exchanges, "host_us": 70.5, "calls": None}
    times = {0: [us - 0.5] * 3, 1: [us - 0.25, us, us + 0.25]}
    said = {rank: {"samples_us": {str(rank): times[rank]}, **more} for rank in times}
    said |= {} if ending == "ok" else {rank: {ending: f"made {ending}"} for rank in times}
    opened = {
        rank: {**FACTS, "roles": {"0": "ffn", "1": "attention"}, "loaded": {**loaded, "safe_path": True}}
        for rank in times
    }
    rows = screen.judge(plan, batch, trial, Ended(said, opened, len(times)))
    key = plan.trial_key(batch, trial)
    reason = {} if ending == "ok" else {"reason": f"made {ending}"}
    return [replace(row, key=key, run="r1", backend="cuda", study="screen", **reason) for row in rows]


@cache
def constants() -> Mapping[str, float]:
    return Machine.load(MACHINE).constants()


SHARES = {
    "m2n": {"l2_bytes": -0.3, "grid_sync_ns": 0.2, RATE: -0.2},
    "afdep": {"l2_bytes": -0.2, RATE: -0.4},
}
"""Exponents of constants at many tokens; at few, the barrier alone counts."""


def device_us(arm: str, tokens: int, values: Mapping[str, float]) -> float:
    """A round trip that is a product of powers of the constants; 30 us with those of the machine."""
    share, usual = math.log2(1 + tokens) / 11, constants()
    shares = {"l2_bytes": share, "grid_sync_ns": 1.0, RATE: share**2}
    powers = SHARES[arm.partition("@")[0]].items()
    return 30.0 * math.exp(sum(power * shares[name] * math.log(values[name] / usual[name]) for name, power in powers))


def device(start_us: float = 0.0, afdep: float = 1.0, **truth: float):
    """A made-up device: powers with some constants changed, a start of each replay, and a factor on one arm."""
    values = constants() | truth

    def us_of(place) -> float:
        return device_us(place.arm, place.tokens, values) * (afdep if place.arm == "afdep" else 1.0) + start_us / REPLAY

    return us_of


def device_powers(read: Settings, trial: program.Trial) -> float:
    """The simulator of that device."""
    cell = read.cells[trial.cell]
    return device_us(read.arms[cell.arm], cell.tokens, read.values | dict(trial.changes))


def simulated_device(start_us: float = 0.0, exchanges: int = 10, **truth: float):
    """A made-up device: the simulated machine with some constants changed, and a start of each replay."""
    table = tuple(Constant(**vars(one)) for one in Machine.load(MACHINE).table)
    search: dict[str, Any] = dict.fromkeys(("evaluations", "num_exchanges", "slope_exchanges"), 1)
    search |= dict.fromkeys(("pull_pct", "step", "reach", "collinear", "identified_pct"), 1.0)
    told = Search(target="measured", machine=MACHINE, arms=("m2n", "afdep"), step_down=(), **search)

    def us_of(place) -> float:
        cell = Cell(0, place.tokens, told.arms.index(place.arm), 1.0)
        one = {"series": (place.series,), "cells": (cell,), "constants": table, "free": (), "source": Source("")}
        read = Settings(**vars(told), **one)
        trial = program.Trial(0, exchanges, tuple(truth.items()))
        samples = program.simulate(read, trial, program.world(read, trial))
        return max(map(fmean, samples)) + start_us / REPLAY

    return us_of


@cache
def composed(name: str, texts: tuple[str, ...], conf: Path) -> dict[str, Any]:
    return compose(name, texts, conf)


def measured(folder, *texts: str, root=ROOT) -> Settings:
    """The settings of a fit to the records of a folder; what was composed once is not composed again."""
    words = ("fit=measured", f"fit.machine={MACHINE}", "fit.pull_pct=0.01", *texts)
    config = copy.deepcopy(composed("study/fit", words, root / "conf")) | {"source": str(folder)}
    del config["launcher"]
    with patch.object(settings, "compose", composed):
        return settings.wanted(config, desk_at(root, [])).settings
