"""The job file: what the processes of one start are told. Everything else they read from the plan and their slot."""

import json
from dataclasses import dataclass
from pathlib import Path

from harness.core.codec import decode, encode
from harness.core.identity import Sources
from harness.core.libraries import Library
from harness.core.plan import Plan, load
from harness.study import Batch


@dataclass(frozen=True)
class Job:
    """One start of a batch.

    Args:
        plan: absolute path of the plan file.
        round, block, batch: where the batch stands in the plan.
        trials: the indices of its trials that are to run.
        slot: absolute path of the slot that must have been loaded.
        sources: that a process may load from it.
        libraries: of the edited tree, as the batch has them built.
        gpus: by rank the GPU that it runs on.
        folder: absolute path of the folder for this start.
        trace: absolute path of a file of recorded expert ids, or None.
        room: SMs that the main kernels of a rank have room on where ranks share a GPU; None where each has its own.
    """

    plan: str
    round: int
    block: int
    batch: int
    trials: tuple[int, ...]
    slot: str
    sources: Sources
    libraries: tuple[Library, ...]
    gpus: tuple[int, ...]
    folder: str
    trace: str | None = None
    room: int | None = None

    def save(self) -> Path:
        path = Path(self.folder) / "job.json"
        path.write_text(json.dumps(encode(self)), encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> "Job":
        return decode(cls, json.loads(path.read_text(encoding="utf-8")))

    def planned(self) -> tuple[Plan, Batch]:
        """The plan, and the batch in it."""
        file = load(Path(self.plan))
        rounds = file.rounds()
        for _ in range(self.round):
            next(rounds)
        return file.plan, next(rounds)[self.block].batches[self.batch]
