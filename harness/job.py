"""The job file: what one fresh process is told. Everything else it reads from the plan and from its own slot."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from harness.decode import decode


@dataclass(frozen=True)
class Job:
    """One process of a plan.

    Args:
        plan: absolute path of the plan file.
        process: index into the plan's processes.
        slot: absolute path of the slot that must have been loaded.
        records: absolute path of the folder for the record file.
        attempt: 1 for the first try of this process.
        host: ordinal of this host in the run.
        trace: absolute path of the file of recorded expert ids, or None where no row takes any.
        turns: absolute path of the folder by which the process learns whose turn it is, or None: it never waits.
    """

    plan: str
    process: int
    slot: str
    records: str
    attempt: int
    host: int
    trace: str | None = None
    turns: str | None = None

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Job":
        return decode(cls, json.loads(path.read_text(encoding="utf-8")))
