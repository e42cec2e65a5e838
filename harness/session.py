"""What every measuring process of a job begins with: the job, its seat in the plan, and the checks of its sources."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import loads
from harness import plan as plans
from harness.screen_config import TRACE, Row
from harness.digests import harness_digest, source_digest
from harness.identity import Identity
from harness.job import Job
from harness.plan import Cell, Plan, PlannedArm
from harness.recording import Seat
from harness.records import Record
from harness.turns import Turns


@dataclass
class Session:
    """One job while it runs: the job, its seat in the plan, the records so far, and the recorded ids of its row."""

    job: Job
    seat: Seat
    observed: dict[str, Any]
    records: list[Record]
    trace: Any = None

    @classmethod
    def open(cls, job_path: Path) -> "Session":
        """The session of a job file."""
        job = Job.load(job_path)
        plan = plans.load(Path(job.plan)).plan
        return cls(job, Seat(plan, plan.processes[job.process], job.attempt, job.host), {}, [])

    @property
    def row(self) -> Row:
        return self.plan.rows[self.seat.process.row]

    @property
    def plan(self) -> Plan:
        return self.seat.plan

    @property
    def turns(self) -> Turns:
        return Turns(None if self.job.turns is None else Path(self.job.turns))

    @property
    def arm(self) -> PlannedArm:
        return self.plan.arms[self.seat.process.arm]

    @property
    def slot(self) -> Path:
        return Path(self.job.slot).resolve()

    def loads(self, cell: Cell, num_exchanges: int) -> list[Any]:
        """Routes of each exchange of a cell, as `harness.loads.make` draws them."""
        return loads.make(self.plan.exchange, self.row, cell.tokens, num_exchanges, self.trace)

    @property
    def unfinished(self) -> list[Cell]:
        done = {(record.tokens, record.bucket) for record in self.records}
        return [cell for cell in self.plan.cells if (cell.tokens, cell.bucket) not in done]


def void_before_loading(session: Session) -> str | None:
    """Why this process must not load anything: it could come from other sources than the plan's."""
    slot = session.slot
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


def void_after_loading(session: Session, loaded: Identity) -> str | None:
    """Why the loaded library is not the planned arm; what was loaded becomes a part of what is observed."""
    module = Path(str(sys.modules["afdep"].__file__)).resolve()
    if not module.is_relative_to(session.slot):
        return "afdep loaded from outside the slot"
    session.observed |= {
        "module_path": module.relative_to(session.slot).as_posix(),
        "loaded_digest": loaded.digest,
        "loaded_protocol": loaded.protocol,
        "loaded_switches": loaded.switches_text(),
    }
    return session.arm.identity.difference(loaded)


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
