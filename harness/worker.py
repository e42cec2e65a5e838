"""One fresh process of a plan: proves what it is, then proves and times every cell of its row.

`python -P -m harness.worker JOB.json`, started in an empty folder with the slot as the only search path. It imports
neither Hydra nor a cluster client. It ends with exactly one record file, whatever it found; only a process that dies
leaves none, and then the executor writes the records.
"""

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import events
from harness import plan as plans
from harness.config import TRACE, Row
from harness.digests import harness_digest, source_digest
from harness.identity import Identity
from harness.job import Job
from harness.leaving import leave
from harness.plan import Cell, Plan
from harness.recording import Seat
from harness.records import Record, write

ORPHANED = 75
"""Exit status of a process whose executor is gone: nobody would know of its figures."""

_MAX_EXCHANGES, _MAX_SOURCES = 1024, 128
"""Bounds that keep the seeds of any two exchanges and sources apart."""


@dataclass
class Session:
    """One job while it runs: the job, its seat in the plan, the records so far, and the recorded ids of its row."""

    job: Job
    seat: Seat
    observed: dict[str, Any]
    records: list[Record]
    trace: Any = None

    @property
    def row(self) -> Row:
        return self.plan.rows[self.seat.process.row]

    @property
    def plan(self) -> Plan:
        return self.seat.plan

    @property
    def unfinished(self) -> list[Cell]:
        done = {(record.tokens, record.bucket) for record in self.records}
        return [cell for cell in self.plan.cells if (cell.tokens, cell.bucket) not in done]


def main(job_path: Path) -> int:
    """Run a job and write its records.

    Returns:
        0 if every cell has a record that is ok or void, 1 if one failed.
    """
    threading.Thread(target=_leave_with_the_executor, daemon=True).start()
    job = Job.load(job_path)
    plan = plans.load(Path(job.plan)).plan
    session = Session(job, Seat(plan, plan.processes[job.process], job.attempt, job.host), {}, [])
    failed = _measure_or_explain(session)
    path = write(Path(job.records), session.records)
    events.say(events.WRITTEN, file=path.name)
    return int(failed)


def _leave_with_the_executor() -> None:
    """Standard input is a pipe that the executor holds open; its end is the executor's end."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(ORPHANED)


def _measure_or_explain(session: Session) -> bool:
    """Fill the session's records; True if a cell failed."""
    try:
        reason = _void_before_loading(session)
        world = None if reason else _world(session)
        reason = reason or _void_after_loading(session, world) or void_trace(session)
        if reason:
            session.records += session.seat.void(session.plan.cells, reason, **session.observed)
            return False
        for cell in session.plan.cells:
            _measure(session, world, cell)
    except Exception as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        session.records += session.seat.failed(session.unfinished, reason, **session.observed)
        return True
    return False


def _void_before_loading(session: Session) -> str | None:
    """Why this process must not load anything: it could come from other sources than the plan's."""
    slot = Path(session.job.slot).resolve()
    session.observed["safe_path"] = bool(sys.flags.safe_path)
    if not sys.flags.safe_path:
        return "safe path is off: the starting folder is searched for modules"
    foreign = [entry for entry in sys.path if not Path(entry).is_absolute() or Path(entry).resolve() == Path.cwd()]
    if foreign or Path(sys.path[0]).resolve() != slot:
        return "search path: expected the slot first and no entry for the starting folder"
    if not Path(__file__).resolve().is_relative_to(slot):
        return "harness loaded from outside the slot"
    return _void_sources(session, slot)


def _void_sources(session: Session, slot: Path) -> str | None:
    tree = session.plan.tree_of(session.seat.process)
    if harness_digest(slot) != session.plan.harness_digest:
        return f"harness changed since the plan: {session.plan.harness_digest} planned, {harness_digest(slot)} found"
    if source_digest(slot) != tree.source_digest:
        return f"source changed since the plan: {tree.source_digest} planned, {source_digest(slot)} found"
    return None


def _world(session: Session) -> Any:
    plan, process = session.plan, session.seat.process
    row, exchange = session.row, plan.exchange
    afdep = importlib.import_module("afdep")
    session.observed["loaded_digest"] = str(afdep.native_digest())
    return afdep.World(
        row.layout,
        hidden=row.hidden,
        num_experts=row.experts,
        top_k=exchange.top_k,
        capacity=exchange.capacity,
        arm=plan.arms[process.arm].name,
        dispatch_dtype=row.dtype,
        transport_sms=exchange.transport_sms,
        machine=plan.backend.machine,
        mode="time",
        seed=exchange.seed,
    )


def _void_after_loading(session: Session, world: Any) -> str | None:
    """Why the loaded library is not the planned arm."""
    slot = Path(session.job.slot).resolve()
    module = Path(str(sys.modules["afdep"].__file__)).resolve()
    if not module.is_relative_to(slot):
        return "afdep loaded from outside the slot"
    loaded = Identity.from_report(world.identity)
    session.observed |= {
        "module_path": module.relative_to(slot).as_posix(),
        "loaded_protocol": loaded.protocol,
        "loaded_switches": loaded.switches_text(),
        "registered_bytes": int(world.registered_bytes),
    }
    planned = session.plan.arms[session.seat.process.arm].identity
    if session.observed["loaded_digest"] != planned.digest:
        return f"digest: the plan expects {planned.digest}, the sources give {session.observed['loaded_digest']}"
    return planned.difference(loaded)


def void_trace(session: Session) -> str | None:
    """Read the recorded ids of the row, if it takes any; why they are not the planned ones."""
    kind, _, planned = session.row.routing.partition("@")
    if kind != TRACE:
        return None
    path = Path(str(session.job.trace))
    session.trace = importlib.import_module("afdep").Trace.load(path, session.row.experts)
    if session.trace.digest == planned:
        return None
    return f"trace changed since the plan: {planned} planned, {session.trace.digest} found"


def _measure(session: Session, world: Any, cell: Cell) -> None:
    """Prove the cell bit for bit, time it, and say so."""
    plan = session.plan
    timing = prove_and_time(plan, session.row, lambda: _world(session), cell, session.trace)
    roles = {rank: world.layout.role(rank) for rank in timing.per_rank_us}
    observed = session.observed | {"proofs_passed": plan.backend.proof_exchanges}
    records = session.seat.measured(cell, timing.per_rank_us, roles, **observed)
    session.records += records
    events.say(events.CELL, tokens=cell.tokens, latency_us=_latency_us(records))


def _latency_us(records: Sequence[Record]) -> float:
    return max(record.latency_us for record in records if record.role == "attention" and record.latency_us is not None)


def prove_and_time(plan: Plan, row: Row, make_world: Callable[[], Any], cell: Cell, trace: Any = None) -> Any:
    """The Timing of a cell, once its exchanges are proved exact; `trace` holds recorded ids.

    Both begin with a world of their own: what ran before, in another cell or in the proof, must not show in a time.
    """
    proof = _loads(plan, row, cell, plan.backend.proof_exchanges, trace)
    make_world().prove_loads(proof, cell.bucket, plan.exchange.seed)
    loads = _loads(plan, row, cell, plan.backend.num_exchanges, trace)
    return make_world().time_exchanges(loads, cell.bucket, collect=plan.exchange.collect)


def _loads(plan: Plan, row: Row, cell: Cell, num_exchanges: int, trace: Any) -> list[Any]:
    """Routes of each exchange; alike for every arm, pair and attempt of a cell, and other ones in each exchange."""
    afdep = importlib.import_module("afdep")
    layout = afdep.Layout.parse(row.layout)

    def ids(exchange: int, source: int) -> Any:
        if trace is not None:
            return trace.replay(exchange, source, cell.tokens)
        return afdep.routing.make(
            row.routing,
            cell.tokens,
            row.experts,
            plan.exchange.top_k,
            (plan.exchange.seed * _MAX_EXCHANGES + exchange) * _MAX_SOURCES + source,
            zipf_exponent=row.zipf_exponent,
            num_ffn_ranks=layout.ffn_ranks,
        )

    sources = range(layout.attention_ranks)
    return [afdep.Load([ids(exchange, source) for source in sources]) for exchange in range(num_exchanges)]


if __name__ == "__main__":
    leave(main(Path(sys.argv[1])))  # its records are synced: no thread of a library may abort it on the way out
