"""One rank of a measured process: `python -P -m harness.device.rank JOB.json` with its number in RANK.

It checks its sources as the worker does, opens its end of the arm, and says on standard output what it loaded and, cell
by cell, what it measured. The worker that started it writes the records.
"""

import dataclasses
import os
import sys
import time
import traceback
from pathlib import Path

from harness import events, session
from harness.device.endpoint import Endpoint, NotMeasurableError, opening
from harness.device.words import CELL, FAILED, LOADED, READY, VOID
from harness.leaving import leave, leave_with_the_starter
from harness.session import Session
from harness.turns import GO, MEASURE


def main(job_path: Path, rank: int) -> int:
    """Measure every cell; 1 if that did not come to its end, once the reason is said."""
    leave_with_the_starter()
    try:
        job = Session.open(job_path)
        reason = session.void_before_loading(job) or session.void_trace(job)
        if reason:
            raise NotMeasurableError(reason)
        _measure(job, rank)
    except NotMeasurableError as void:
        events.say(VOID, reason=str(void))
        return 1
    except Exception as error:
        traceback.print_exc()
        events.say(FAILED, reason=f"{type(error).__name__}: {' '.join(str(error).split())}")
        return 1
    return 0


def _measure(job: Session, rank: int) -> None:
    open_end = opening(job)
    events.say(READY)
    job.turns.wait(GO)
    started = time.monotonic()
    end = open_end(job, rank)
    facts = {**end.facts, "open_s": round(time.monotonic() - started, 3)}
    reason = session.void_after_loading(job, end.identity) or _void_machine(job, end)
    observed = job.observed | {"registered_bytes": end.registered_bytes}
    events.say(LOADED, role=end.role, observed=observed, facts=facts)
    if reason:
        raise NotMeasurableError(reason)
    job.turns.wait(MEASURE)
    plan = job.plan
    for cell in plan.cells:
        end.prove(job.loads(cell, plan.backend.proof_exchanges), cell)
        measured = end.time(job.loads(cell, 1)[0], cell)
        events.say(CELL, tokens=cell.tokens, bucket=cell.bucket, measured=dataclasses.asdict(measured))
    end.close()


def _void_machine(job: Session, end: Endpoint) -> str | None:
    """Why this is not the machine whose link bounds the figures."""
    planned, found = job.plan.backend.machine, str(end.facts["device"])
    if planned.partition("-")[0].upper() in found.upper():
        return None
    return f"machine: the plan expects {planned}, this rank runs on {found}"


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), int(os.environ["RANK"])))  # a peer may be gone and never take part in a tear-down
