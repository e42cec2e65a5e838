"""Ready-made records, plans and results of screens for tests that run no process."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.core import plan as plans
from harness.core.identity import Identity
from harness.core.plan import Plan, PlanFile, PlannedArm, Tree
from harness.ranks.cells import Backend, DeviceTiming, Exchange, Floor, Row
from harness.ranks.exchanges import RoundTrip
from harness.records import Reading, write
from harness.report.results import Part, Results
from harness.studies.screen import program
from harness.studies.screen.program import ArmChoice, Settings, Trial
from harness.study import Batch, Ended

BACKEND = Backend("sim", "h100-nvlink", 1, 10, 1, 1)
EXCHANGE = Exchange(8, 2048, None, 24, "copy", "graph", 0)
HOST = DeviceTiming("host", 0, 12, 3, 10, "auto")
"""Replays that each start behind a barrier of the hosts."""
FREE = dataclasses.replace(HOST, rendezvous="device", least_replay_us=2000)
FLOOR = Floor(500.0, 343.0)
ROW = Row("1A1F", 2048, "bf16", "random", 128)
TABLE = (
    Row("2A2F", 2048, "bf16", "random", 128),
    Row("2A2F", 4096, "bf16", "random", 128),
    Row("3A1F", 2048, "bf16", "random", 128),
    Row("1A3F", 2048, "bf16", "random", 96),
)
IDENTITIES = {
    "m2n": Identity("n12345678", "m2n"),
    "afdep": Identity("n12345678", "afdep"),
    "afdep@bd4db4da": Identity("n12345678", "afdep", (("AFDEP_UNION_REDUCE_PREFIX", 1),)),
    "nccl": Identity("external", "nccl"),
}
MAIN = ("m2n", "afdep@bd4db4da")
EPOCH = "2026-01-02T00:00:00+00:00"


def record(**changes: Any) -> RoundTrip:
    """An ok record of one Attention rank, with some fields changed."""
    fields: dict[str, Any] = {
        "study": "screen", "key": "k1", "plan_hash": "p1", "run": "r1", "command": "c", "created": EPOCH,
        "screen": "main", "backend": "sim", "machine": "h100-nvlink", "layout": "1A1F", "hidden": 2048,
        "dtype": "bf16", "routing": "random", "tokens": 8, "bucket": 8, "num_experts": 128, "top_k": 8,
        "capacity": 2048, "collect": "copy", "mode": "graph", "placement": "one rank per GPU", "transport_sms": 24,
        "num_exchanges": 3, "proof_exchanges": 1, "arm": "m2n", "tree": "working", "slot": "slot0",
        "native_digest": "n12345678", "library_digest": "t1", "measuring_digest": "m1", "rank": 1, "role": "attention",
        "latency_us": 30.0, "samples_us": (30.0, 30.0),
    }  # fmt: skip
    return RoundTrip(**(fields | changes))


def on_gpus(device: DeviceTiming = HOST, pairs: int = 2, ranks_per_gpu: int = 1) -> Backend:
    """Screens on H200s."""
    return Backend("cuda", "h200-nvlink", pairs, 20, 3, ranks_per_gpu, device, FLOOR)


def settings(
    *,
    rows: int | tuple[Row, ...] = 1,
    pairs: int = 1,
    tokens: tuple[int, ...] = (1, 8),
    arms: tuple[str, ...] = MAIN,
    **changes: Any,
) -> Settings:
    """Two arms on one tree; the main table's first rows."""
    fields: dict[str, Any] = {
        "name": "main",
        "rows": TABLE[:rows] if isinstance(rows, int) else rows,
        "tokens": tokens,
        "arms": tuple(ArmChoice(arm) for arm in arms),
        "exchange": EXCHANGE,
        "backend": dataclasses.replace(BACKEND, pairs=pairs),
        "published": "result-main",
    }
    return Settings(**(fields | changes))


def plan(wanted: Settings | None = None, **how: Any) -> Plan:
    """A plan of a screen; keywords as `settings` takes them."""
    wanted = wanted or settings(**how)
    backend = wanted.backend.name
    arms = tuple(PlannedArm(one.name, one.tree, backend, IDENTITIES[one.name]) for one in wanted.arms)
    trees = (Tree("working", ((backend, "n12345678"),), "t1"),)
    machine = "k1" if backend == "sim" else None
    return Plan("screen", wanted.name, wanted, trees, arms, "m1", machine, tuple(program.blocks(wanted, ())))


US = {"m2n": 30.0, "afdep": 21.0, "afdep@bd4db4da": 20.0, "nccl": 25.0}
"""By arm what a cell takes in its first pair; in each later one it takes a microsecond more."""

Figure = Callable[[Batch, Trial], float]


def figures(own: Plan) -> Figure:
    """What US says of the arms of a plan."""
    names = [arm.name for arm in own.settings.arms]
    return lambda batch, trial: US[names[trial.arm]] + trial.pair


def records(
    own: Plan,
    us_of: Figure | None = None,
    end: Callable[[Batch, Trial], str] = lambda batch, trial: "ok",
    device: str = "NVIDIA H200",
    **changes: Any,
) -> list[RoundTrip]:
    """The records of a plan, as its program judges what its processes said.

    Args:
        own: the plan.
        us_of: a cell's round trip; by default as US has it.
        end: `ok`, `void`, `failed`, or `missing`, by batch and trial.
        device: of a plan on GPUs.
        changes: fields of every record.
    """
    found: list[RoundTrip] = []
    for block in own.blocks:
        for batch in block.batches:
            for trial in batch.trials:
                if (ending := end(batch, trial)) != "missing":
                    ended = _ended(own, batch, trial, (us_of or figures(own))(batch, trial), ending, device)
                    rows = program.judge(own, batch, trial, ended)
                    found += [_stamped(own, batch, trial, row, device, changes) for row in rows]
    return found


def _ended(own: Plan, batch: Batch, trial: Trial, us: float, ending: str, device: str) -> Ended:
    """What the ranks of a process said: FFN ranks take half a microsecond less, samples lie around their median."""
    layout, sim = own.settings.rows[trial.row].layout, batch.backend == "sim"
    num_ffn, num_ranks = int(layout[2]), int(layout[0]) + int(layout[2])
    roles = {str(rank): "ffn" if rank < num_ffn else "attention" for rank in range(num_ranks)}
    times = {rank: [us - 0.5] * 3 if role == "ffn" else [us - 0.25, us, us + 0.25] for rank, role in roles.items()}
    facts = {"loaded": _loaded(own.arms[trial.arm]), "registered_bytes": 4096}
    if not sim:
        facts |= {"device": device, "gpus": num_ranks}
    proofs, parts = own.settings.backend.proof_exchanges, {0: roles} if sim else {int(r): {r: roles[r]} for r in roles}
    said: dict[int, Any] = {
        process: {
            **{"samples_us": {rank: times[rank] for rank in held}, "proofs": proofs, "least_bytes": 0},
            **{"exchanges": 20, "host_us": None if sim else 70.5, "calls": None if sim else {"cudaLaunch": 20.0}},
        }
        for process, held in parts.items()
    }
    if ending != "ok":
        said = {process: {ending: f"made {ending}"} for process in said}
    return Ended(said, {process: {**facts, "roles": held} for process, held in parts.items()}, len(parts))


def _loaded(arm: PlannedArm) -> dict[str, Any]:
    digest = arm.identity.digest if arm.identity.digest != "external" else "torch 1, nccl 2"
    switches = arm.identity.switches_text()
    named = {"loaded_digest": digest, "loaded_protocol": arm.identity.protocol, "loaded_switches": switches}
    return {**named, "safe_path": True, "module_path": "afdep/__init__.py"}


def _stamped(own: Plan, batch: Batch, trial: Trial, row: RoundTrip, device: str, changes: dict[str, Any]) -> RoundTrip:
    """As the ledger stamps it."""
    sim = batch.backend == "sim"
    fields: dict[str, Any] = {
        **{"study": "screen", "plan_hash": own.plan_hash, "key": own.trial_key(batch, trial), "run": "r1"},
        **{"command": "c", "created": EPOCH, "backend": batch.backend, "machine": row.machine if sim else device},
        **{"native_digest": "n12345678", "library_digest": "t1", "measuring_digest": "m1"},
        **({} if sim else {"gpu_uuid": f"GPU-{row.rank}", "torch": "2", "driver": "1"}),
    }
    return dataclasses.replace(row, **(fields | changes))


def part(own: Plan, rows: list[RoundTrip]) -> Part:
    """A plan with these records."""
    data = tuple({**dataclasses.asdict(row), "table": row.table} for row in rows)
    return Part(PlanFile(Path(f"{own.plan_hash}.json"), "now", "command", own), Reading(data, (), 1))


def results(*parts: Part, name: str = "main") -> Results:
    """Parts of a page."""
    return Results("screen", name, parts)


def lay(folder: Path, own: Plan, rows: list[RoundTrip]) -> PlanFile:
    """Write a plan and its records as an out folder has them."""
    file = plans.save(folder / "plans", own, EPOCH, "afdep-bench screen")
    if rows:
        write(folder / "records" / file.plan_hash, "0-0000-0000-001", rows)
    return file
