"""Folders of measured screens without a device: plans for GPUs with records whose figures a function gives."""

import dataclasses
import json
import math
from functools import cache

from afdep import Machine, native_digest
from afdep.build import build
from harness import plan as plans
from harness import records
from harness.compose import compose
from harness.screen_config import Backend, DeviceTiming, Exchange, Floor, Row
from harness.fit import measured
from harness.fit.measured.replays import Replay, Simulator, cell_us, simulate
from harness.fit.measured.targets import Place, Series
from harness.identity import Identity
from harness.order import processes
from harness.plan import Cell, Plan, PlannedArm
from harness.recording import Seat
from harness.workspace import REPOSITORY, Workspace
from tests.harness import samples
from tests.harness.fits import AROUND

HOST = DeviceTiming("host", 0, 12, 3, 10, "auto", Floor(500.0, 343.0))
FREE = dataclasses.replace(HOST, rendezvous="device", least_replay_us=2000)
ROW = Row("1A1F", 2048, "bf16", "random", None, 128)
WIDE = dataclasses.replace(ROW, hidden=4096)
MACHINE = "h100-nvlink"
"""One that no calibration changes, so that it stays known which of its constants may be fitted."""
ARMS = ("m2n", "afdep")
DIGEST = str(native_digest("sim"))
REPLAY = 20
FACTS = json.dumps({"gpus": 2, "device": "NVIDIA H200", "exchanges": REPLAY}, sort_keys=True)


def device_plan(*rows: Row, device=HOST, tokens=(1, 8), arms=ARMS, pairs=2, digest=DIGEST, **exchange) -> Plan:
    """A plan of screens on GPUs, as the verb `plan` makes it."""
    return dataclasses.replace(
        samples.plan(),
        screen="h200",
        published=None,
        backend=Backend("cuda", "h200-nvlink", False, pairs, REPLAY, 3, 1, "one rank per GPU", device),
        exchange=dataclasses.replace(Exchange(8, 2048, None, 24, "copy", "graph", 0), **exchange),
        arms=tuple(PlannedArm(arm, 0, Identity(digest, arm, ())) for arm in arms),
        rows=rows or (ROW,),
        cells=tuple(Cell(one, one) for one in tokens),
        processes=processes(len(rows or (ROW,)), len(arms), 1, pairs),
    )


def lay(folder, plan: Plan, us_of, end=lambda place, pair: "ok"):
    """Write a plan and its records.

    Args:
        folder: as records/NAME, which `records keep=NAME` makes.
        plan: the plan.
        us_of: gives a cell's round trip in us by its place.
        end: gives `ok`, `void`, `failed`, or `missing`, by place and pair.
    """
    workspace = Workspace(folder)
    file = plans.save(workspace.plans, plan, "2026-01-02T00:00:00+00:00", "python -m harness plan")
    for process in plan.processes:
        seat, found = Seat(plan, process, 1, 0), []
        for cell in plan.cells:
            place = Place(Series(plan.rows[process.row], plan.exchange), cell, plan.arms[process.arm].name)
            found += _records(seat, cell, us_of(place), end(place, process.pair))
        if found:
            records.write(workspace.records(file.plan_hash), found)
    return folder


def _records(seat: Seat, cell: Cell, us: float, end: str):
    """Two ranks, the FFN's a little faster; samples around their median."""
    arm = seat.plan.arms[seat.process.arm]
    loaded = {"loaded_digest": arm.identity.digest, "loaded_protocol": arm.name, "loaded_switches": ""}
    if end in ("void", "failed"):
        return getattr(seat, end)([cell], f"made {end}", **loaded)
    if end == "missing":
        return []
    times = {0: [us - 0.5] * 3, 1: [us - 0.25, us, us + 0.25]}
    return seat.measured(cell, times, {0: "ffn", 1: "attention"}, observed=FACTS, host_us=70.5, **loaded)


@cache
def simulator() -> Simulator:
    return Simulator(Machine.load(MACHINE), build(), DIGEST)


@cache
def constants() -> dict[str, float]:
    return Machine.load(MACHINE).constants()


def device(start_us: float = 0.0, exchanges: int = 10, **truth: float):
    """A made-up device: the simulated machine with some constants changed, and a start of each replay."""

    def us_of(place: Place) -> float:
        return cell_us(simulate(Replay(simulator(), place, truth, exchanges))) + start_us / REPLAY

    return us_of


POWERS = {
    "m2n": {"l2_bytes": -0.3, "grid_sync_ns": 0.2, "nvlink_gb_per_s": -0.2},
    "afdep": {"l2_bytes": -0.2, "nvlink_gb_per_s": -0.4},
}
"""Exponents of constants at many tokens; at few, the barrier alone counts."""


def powers_us(place: Place, values) -> float:
    """A round trip that is a product of powers of the constants, known exactly; 30 us with those of the machine."""
    share, usual = math.log2(1 + place.cell.tokens) / 11, constants()
    shares = {"l2_bytes": share, "grid_sync_ns": 1.0, "nvlink_gb_per_s": share**2}
    powers = POWERS[place.arm.partition("@")[0]].items()
    return 30.0 * math.exp(sum(power * shares[name] * math.log(values[name] / usual[name]) for name, power in powers))


def power_run(tasks):
    """Runs replays as `powers_us` has them."""
    for task in tasks:
        values = task.simulator.machine.constants() | dict(task.values)
        yield ((powers_us(task.place, values),) * task.exchanges,)


def power_device(start_us: float = 0.0, afdep: float = 1.0, **truth: float):
    """The same as a device: with some constants changed, a start of each replay, and a factor on one arm."""

    def us_of(place: Place) -> float:
        values = constants() | truth
        return powers_us(place, values) * (afdep if place.arm == "afdep" else 1.0) + start_us / REPLAY

    return us_of


def read(folder, *texts, repository=REPOSITORY):
    """The settings of a fit to the records of a folder."""
    texts = ("fit=measured", f"source={folder}", f"fit.machine={MACHINE}", "jobs=1", "fit.pull_pct=0.01", *texts)
    return measured.measured_settings(compose("fit", texts, repository / "conf"), texts, repository)


def fitted(settings) -> tuple[measured.Study, dict[str, float]]:
    """The fit of these settings on the powers, and what it found by constant."""
    study = measured.Study(measured.perform(settings, power_run, "python -m harness fit", AROUND))
    return study, {one.name: one.refitted for one in study.free}
