"""The one program of every measuring process: a rank of a batch, or all of it where one process holds every rank.

`python -P -m harness.core.worker JOB.json`, with its number in RANK, started in an empty folder with the slot as the
only search path. It imports neither Hydra nor a cluster client. It proves what it is, opens its group, runs the study's
program and says on its standard output what came of each trial; whoever started it writes the records.
"""

import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.core.job import Job
from harness.core.plan import Plan
from harness.core.process import Mouth, in_words, leave, leave_with_the_starter
from harness.study import Batch, VoidError, program

READY, OPENED, SAID, VOID, FAILED, ENDED = "ready", "opened", "said", "void", "failed", "ended"
"""It has imported what it needs and waits; facts of the rank; facts of a trial; why nothing counts; why it failed; the
end, with the files that it loaded from outside its sources."""

GO, MEASURE = "go", "measure"
"""Words of the starter: it may take its GPU; it may measure."""

GROUPS = {"sim": "harness.ranks.simulated", "cuda": "harness.ranks.device"}
"""Where the group of a backend is made, by a function `make(session)`."""


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
    _words: set[str] = field(default_factory=set)
    _heard: threading.Condition = field(default_factory=threading.Condition)

    @property
    def slot(self) -> Path:
        return Path(self.job.slot)

    def hear(self, word: str) -> None:
        """Take in a word of the starter."""
        with self._heard:
            self._words.add(word)
            self._heard.notify_all()

    def wait(self, word: str) -> None:
        """Wait until the word is said."""
        with self._heard:
            self._heard.wait_for(lambda: word in self._words)

    def opened(self, **facts: Any) -> None:
        """Say what this process runs and where."""
        self.mouth.say(OPENED, facts={"affinity": len(os.sched_getaffinity(0)), **facts})

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
    mouth = Mouth()
    job = Job.load(job_path)
    plan, batch = job.planned()
    own = replace(batch, trials=tuple(batch.trials[index] for index in job.trials))
    session = Session(job, plan, own, rank, mouth)
    leave_with_the_starter(session.hear)
    try:
        _run(session)
    except VoidError as void:
        mouth.say(VOID, reason=str(void))
    except Exception as error:
        traceback.print_exc()
        mouth.say(FAILED, reason=in_words(error))
        return 1
    return 0


def _run(session: Session) -> None:
    if (reason := session.void_before_loading()) is not None:
        raise VoidError(reason)
    studied: Any = program(session.plan.study)
    for module in backends(studied, session.batch.backend):
        importlib.import_module(module)
    session.mouth.say(READY)
    session.wait(GO)
    started = time.monotonic()
    group = importlib.import_module(_group(studied, session.batch.backend)).make(session)
    for said in studied.run(session.batch, group):
        session.mouth.say(SAID, trial=session.job.trials[said.trial], facts=dict(said.facts))
    group.close()
    outside = session.job.sources.outside(session.slot)
    session.mouth.say(ENDED, seconds=round(time.monotonic() - started, 3), outside=outside)


def backends(studied: Any, backend: str) -> Sequence[str]:
    """The modules that a study's program needs on a backend beside itself, its group's first."""
    return [_group(studied, backend), *getattr(studied, "BACKENDS", {}).get(backend, ())]


def _group(studied: Any, backend: str) -> str:
    """The module that makes the group: the study's own, where it needs no ranks, or that of the backend."""
    return str(getattr(studied, "GROUP", GROUPS[backend]))


if __name__ == "__main__":
    number = os.environ.get("RANK")
    leave(main(Path(sys.argv[1]), None if number is None else int(number)))  # a peer may be gone: no tear-down waits
