"""The cells of a job on the simulator: a World proves and times each in this process."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from harness import events, loads, sections, session
from harness.config import Row
from harness.identity import Identity, native_digest_of
from harness.plan import Cell, Plan
from harness.plausibility import impossible
from harness.recording import latency_us
from harness.session import Session


def measure(job: Session) -> None:
    """Fill the job's records."""
    first = _world(job)
    job.observed["registered_bytes"] = int(first.registered_bytes)
    reported = Identity.from_report(first.identity)
    reason = _void_digest(job) or session.void_after_loading(job, reported) or session.void_trace(job)
    if reason:
        job.records += job.seat.void(job.plan.cells, reason, **job.observed)
        return
    for cell in job.plan.cells:
        _measure(job, first, cell)


def _void_digest(job: Session) -> str | None:
    """Why the sources are not the planned ones, by their own account."""
    job.observed["loaded_digest"] = found = native_digest_of(importlib.import_module("afdep"), "sim")
    planned = job.arm.identity.digest
    return None if found == planned else f"digest: the plan expects {planned}, the sources give {found}"


def _world(job: Session) -> Any:
    plan, row, exchange = job.plan, job.row, job.plan.exchange
    return importlib.import_module("afdep").World(
        row.layout,
        **exchange.shape_of(row),
        arm=job.arm.name,
        machine=plan.backend.machine,
        mode="time",
        seed=exchange.seed,
    )


def _measure(job: Session, world: Any, cell: Cell) -> None:
    """Prove the cell bit for bit, time it, and say so."""
    plan = job.plan
    timing = prove_and_time(plan, job.row, lambda: _world(job), cell, job.trace)
    roles = {rank: world.layout.role(rank) for rank in timing.per_rank_us}
    observed = job.observed | {"proofs_passed": plan.backend.proof_exchanges}
    timed = job.loads(cell, plan.backend.num_exchanges)
    records = job.seat.measured(cell, timing.per_rank_us, roles, **observed)
    reason = impossible(sections.floor(plan.backend.machine), job.row, timed, latency_us(records))
    job.records += job.seat.voided(records, reason) if reason else records
    events.say(events.CELL, tokens=cell.tokens, latency_us=latency_us(records))


def prove_and_time(plan: Plan, row: Row, make_world: Callable[[], Any], cell: Cell, trace: Any = None) -> Any:
    """The Timing of a cell, once its exchanges are proved exact; `trace` holds recorded ids.

    Both begin with a world of their own: what ran before, in another cell or in the proof, must not show in a time.
    """
    proof = loads.make(plan.exchange, row, cell.tokens, plan.backend.proof_exchanges, trace)
    _prove(make_world(), proof, cell.bucket, plan.exchange.seed)
    timed = loads.make(plan.exchange, row, cell.tokens, plan.backend.num_exchanges, trace)
    return make_world().time_exchanges(timed, cell.bucket, collect=plan.exchange.collect)


def _prove(world: Any, loads: Sequence[Any], bucket: int, seed: int) -> None:
    """Prove exchanges; in trees from before the package `afdep.proof` the World does it itself."""
    if hasattr(world, "prove_loads"):
        world.prove_loads(loads, bucket, seed)
    else:
        importlib.import_module("afdep.proof").prove(world, loads, bucket, seed)
