"""Trials on GPUs: one start of a layout's ranks plays them in turn, another one those behind a trial that ended it."""

import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from afdep.layout import Layout
from harness import colocation, mps
from harness.colocation import Placement
from harness.device import launch
from harness.errors import MpsError
from harness.faults.judging import TIME_OVER, VOID, Outcome, judge
from harness.faults.part import PART, READY, Report
from harness.faults.trials import Trial
from harness.validation.on_gpus import Gpus
from harness.workspace import REPOSITORY

_GRACE_S = 3.0
"""How long ranks may go on when one has ended: their waits are bounded, and their host meets nobody any more."""

_LEAST_S = 12.0
"""No start with less time than this ahead: ranks need most of it to be up."""

Starter = Callable[[launch.Start, launch.Listener], dict[int, str]]


@dataclass(frozen=True)
class Job:
    """What a node plays.

    Args:
        trials: in order; those of a layout follow each other.
        digests: the name of each library, and its native digest.
        timeout_s: of one wait on the device.
        stuck_s: when kernels that still run are held to hang.
        limit_s: of all starts together.
    """

    trials: tuple[Trial, ...]
    digests: tuple[tuple[str, str], ...]
    timeout_s: float
    stuck_s: float
    limit_s: float


@dataclass
class _Heard:
    """The reports of a start, by trial and rank, and how long its ranks took to be up."""

    reports: dict[int, dict[int, Report]] = field(default_factory=dict)
    up_s: float = 0.0

    def hear(self, rank: int, event: Mapping[str, Any]) -> None:
        if event["event"] == PART:
            told = {**event["report"], "told": tuple(event["report"]["told"])}
            self.reports.setdefault(event["trial"], {})[rank] = Report(**told)
        elif event["event"] == READY:
            self.up_s = max(self.up_s, event["seconds"])


def play_all(
    job: Job,
    libraries: Path,
    gpus: Gpus | str,
    say: Callable[[str], None],
    start: Starter = launch.run,
    clock: Callable[[], float] = time.monotonic,
    listen: Callable[[Outcome], None] = lambda outcome: None,
) -> Iterator[Outcome]:
    """What comes of each trial, in order.

    Args:
        job: what is played.
        libraries: the folder of the built libraries.
        gpus: those of this machine, or why there are none.
        say: told of each start.
        start: starts ranks and follows them to their end.
        clock: seconds since any moment.
        listen: told of each outcome that all ranks have spoken of, before the start that it is of has ended.
    """
    waiting, ends = list(job.trials), clock() + job.limit_s
    while waiting:
        left = ends - clock()
        if isinstance(gpus, str) or left < _LEAST_S:
            yield Outcome(waiting.pop(0), VOID, gpus if isinstance(gpus, str) else TIME_OVER)
            continue
        together = list(takewhile(lambda one: one.layout == waiting[0].layout, waiting))
        outcomes = _play(replace(job, trials=tuple(together), limit_s=left), libraries, gpus, say, start, listen)
        yield from outcomes
        del waiting[: len(outcomes)]


def _play(
    job: Job,
    libraries: Path,
    gpus: Gpus,
    say: Callable[[str], None],
    start: Starter,
    listen: Callable[[Outcome], None],
) -> list[Outcome]:
    """What comes of these trials, up to the last that some rank spoke of; of the first, where no rank did."""
    placement = colocation.place(Layout.parse(job.trials[0].layout), gpus.count)
    heard, started = _Heard(), time.monotonic()
    say(f"{job.trials[0].layout}: starts {len(placement.seats)} ranks on GPUs {placement.in_words()}")

    def outcome_of(index: int, endings: Mapping[int, str]) -> Outcome:
        trial = job.trials[index]
        outcome = judge(trial, dict(job.digests)[trial.library], heard.reports.get(index, {}), endings)
        return replace(outcome, machine=gpus.name, ranks_per_gpu=placement.ranks_per_gpu)

    def hear(rank: int, event: Mapping[str, Any]) -> None:
        heard.hear(rank, event)
        if event["event"] == PART and len(heard.reports[event["trial"]]) == len(placement.seats):
            listen(outcome_of(event["trial"], {}))

    try:
        with tempfile.TemporaryDirectory(prefix="faults-") as name, mps.shares(placement, os.environ) as shares:
            endings = start(_start(Path(name), job, libraries, placement, shares), hear)
    except MpsError as error:
        return [Outcome(trial, VOID, f"needs MPS: {error.reason}") for trial in job.trials]
    spoken = max(heard.reports, default=0) + 1
    seconds = time.monotonic() - started
    say(f"{job.trials[0].layout}: {spoken} trials in {seconds:.1f} s, ranks up after {heard.up_s:.1f} s")
    return [outcome_of(index, endings) for index in range(min(spoken, len(job.trials)))]


def _start(
    folder: Path, job: Job, libraries: Path, placement: Placement, shares: Sequence[Mapping[str, str]]
) -> launch.Start:
    told = {
        "gpus": [seat.gpu for seat in placement.seats],
        "trials": [dataclasses.asdict(trial) for trial in job.trials],
        "libraries": str(libraries.resolve()),
        "timeout_s": job.timeout_s,
        "stuck_s": job.stuck_s,
        "limit_s": job.limit_s,
    }
    path = folder / "trials.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    return launch.Start(path, REPOSITORY, shares, _GRACE_S, folder, os.environ, module="harness.faults.rank")
