"""One fresh process of a plan: proves what it is, then proves and times every cell of its row.

`python -P -m harness.worker JOB.json`, started in an empty folder with the slot as the only search path. It imports
neither Hydra nor a cluster client. It ends with exactly one record file, whatever it found; only a process that dies
leaves none, and then the executor writes the records.
"""

import importlib
import sys
import traceback
from pathlib import Path

from harness import events
from harness.leaving import leave, leave_with_the_starter
from harness.records import write
from harness.session import Session, void_before_loading

_MEASURING = {"sim": "harness.simulated", "cuda": "harness.device.measuring"}
"""Where the cells of a backend are measured."""


def main(job_path: Path) -> int:
    """Run a job and write its records.

    Returns:
        0 if every cell has a record that is ok or void, 1 if one failed.
    """
    leave_with_the_starter()
    session = Session.open(job_path)
    failed = _measure_or_explain(session)
    path = write(Path(session.job.records), session.records)
    events.say(events.WRITTEN, file=path.name)
    return int(failed)


def _measure_or_explain(session: Session) -> bool:
    """Fill the session's records; True if a cell failed."""
    try:
        reason = void_before_loading(session)
        if reason:
            session.records += session.seat.void(session.plan.cells, reason, **session.observed)
            return False
        importlib.import_module(_MEASURING[session.plan.backend.name]).measure(session)
    except Exception as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        session.records += session.seat.failed(session.unfinished, reason, **session.observed)
        return True
    return False


if __name__ == "__main__":
    leave(main(Path(sys.argv[1])))  # its records are synced: no thread of a library may abort it on the way out
