"""The one program of every measuring process: a rank of a batch, or all of it where one process holds every rank.

`python -P -m harness.core.worker JOB.json`, with its number in RANK, started in an empty folder with the slot as the
only search path. It imports neither Hydra nor a cluster client. It proves what it is, opens its group, runs the study's
program and says on its standard output what came of each trial; whoever started it writes the records.
"""

import importlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from harness.core import journal
from harness.core.codec import decode, encode
from harness.core.identity import Library, Sources
from harness.core.journal import Attempt
from harness.core.plan import Plan, load
from harness.core.process import SIGNALS, Mouth, in_words, leave, leave_with_the_starter
from harness.study import Batch, VoidError, program

GO, MEASURE = "go", "measure"
"""Words of the starter: it may take its GPU; it may measure."""

GROUPS = {"sim": "harness.ranks.simulated", "cuda": "harness.ranks.device"}
"""Where the group of a backend is made, by a function `make(session)`."""


@dataclass(frozen=True)
class Job:
    """What the processes of one start are told, in a file; everything else they read from the plan and their slot.

    Args:
        plan: absolute path of the plan file.
        attempt: which batch of it, and which of its trials.
        slot: absolute path of the slot that must have been loaded.
        sources: that a process may load from it.
        trace: absolute path of a file of recorded expert ids, or None.
        libraries: of the edited tree, as the batch has them built.
        gpus: by rank the GPU that it runs on.
        folder: absolute path of the folder for this start.
        room: SMs that the main kernels of a rank have room on where ranks share a GPU; None where each has its own.
    """

    plan: str
    attempt: Attempt
    slot: str
    sources: Sources
    trace: str | None = None
    libraries: tuple[Library, ...] = ()
    gpus: tuple[int, ...] = ()
    folder: str = ""
    room: int | None = None

    def save(self) -> Path:
        path = Path(self.folder) / "job.json"
        path.write_text(json.dumps(encode(self)), encoding="utf-8")
        return path


@dataclass
class Session:
    """A measuring process while it runs.

    Args:
        job: what it was told.
        plan: the plan.
        batch: of it, with the trials that are to run.
        rank: its number; None: it holds all ranks.
    """

    job: Job
    plan: Plan
    batch: Batch
    rank: int | None
    mouth: Mouth
    _words: dict[str, threading.Event] = field(
        default_factory=lambda: {word: threading.Event() for word in (GO, MEASURE)}
    )

    @property
    def slot(self) -> Path:
        return Path(self.job.slot)

    def hear(self, word: str) -> None:
        """Take in a word of the starter."""
        self._words[word].set()

    def wait(self, word: str) -> None:
        """Wait until the word is said."""
        self._words[word].wait()

    def opened(self, **facts: Any) -> None:
        """Say what this process runs and where."""
        self.mouth.say(journal.OPENED, facts={"affinity": len(os.sched_getaffinity(0)), **facts})

    def void_before_loading(self) -> str | None:
        """Why this process must not load anything: it could come from other sources than the plan's."""
        if not sys.flags.safe_path:
            return "safe path is off: the starting folder is searched for modules"
        foreign = [one for one in sys.path if not Path(one).is_absolute() or Path(one).resolve() == Path.cwd()]
        if foreign or Path(sys.path[0]).resolve() != self.slot:
            return "search path: expected the slot first and no entry for the starting folder"
        if not Path(__file__).resolve().is_relative_to(self.slot):
            return "harness loaded from outside the slot"
        tree, sources = self.plan.trees[self.batch.tree], self.job.sources
        return _changed("harness", self.plan.measuring_digest, sources.measuring_digest(self.slot)) or _changed(
            "source", tree.library_digest, sources.library_digest(self.slot)
        )


def _changed(what: str, planned: str, found: str) -> str | None:
    return None if planned == found else f"{what} changed since the plan: {planned} planned, {found} found"


def main(job_path: Path, rank: int | None) -> int:
    """Run a job; 1 where something failed, once the reason is said."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # under nohup, or behind a shell's &, some are ignored
    mouth = Mouth()
    job = decode(Job, json.loads(job_path.read_text(encoding="utf-8")))
    file, attempt = load(Path(job.plan)), job.attempt
    batch = next(islice(file.rounds(), attempt.round, None))[attempt.block].batches[attempt.batch]
    own = replace(batch, trials=tuple(batch.trials[index] for index in attempt.trials))
    session = Session(job, file.plan, own, rank, mouth)
    leave_with_the_starter(session.hear)
    try:
        _run(session)
    except VoidError as void:
        mouth.say(journal.VOID, reason=str(void))
    except Exception as error:
        traceback.print_exc()
        mouth.say(journal.FAILED, reason=in_words(error))
        return 1
    return 0


def _run(session: Session) -> None:
    if (reason := session.void_before_loading()) is not None:
        raise VoidError(reason)
    studied: Any = program(session.plan.study)
    for module in backends(studied, session.batch.backend):
        importlib.import_module(module)
    session.mouth.say(journal.READY)
    session.wait(GO)
    group = importlib.import_module(_group(studied, session.batch.backend)).make(session)
    for said in studied.run(session.batch, group):
        session.mouth.say(journal.SAID, trial=session.job.attempt.trials[said.trial], facts=dict(said.facts))
    group.close()
    session.mouth.say(journal.ENDED, outside=session.job.sources.outside(session.slot))


def backends(studied: Any, backend: str) -> Sequence[str]:
    """The modules that a study's program needs on a backend beside itself, its group's first."""
    return [_group(studied, backend), *getattr(studied, "BACKENDS", {}).get(backend, ())]


def _group(studied: Any, backend: str) -> str:
    """The module that makes the group: the study's own, where it needs no ranks, or that of the backend."""
    return str(getattr(studied, "GROUP", GROUPS[backend]))


if __name__ == "__main__":
    number = os.environ.get("RANK")
    leave(main(Path(sys.argv[1]), None if number is None else int(number)))  # a peer may be gone: no tear-down waits
