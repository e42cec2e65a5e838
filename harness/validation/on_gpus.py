"""Trials on GPUs: one start of rank processes plays the trials of every layout that has the same seats, in turn."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from afdep.layout import Layout
from harness import colocation, mps
from harness.colocation import Placement
from harness.device import launch
from harness.errors import MpsError, PlacementError
from harness.process import last_line
from harness.validation.cases import Trial
from harness.validation.companies import Company, companies
from harness.validation.outcome import Outcome, judged
from harness.validation.part import LOST, PART, READY, Report, seen_by
from harness.workspace import REPOSITORY

_GRACE_S = 5.0
"""For ranks when one has ended: their hosts learn of it at once, and their waits time out in that time."""

_PROBE = """
import ctypes, json
driver = ctypes.CDLL("libcuda.so.1")
def ask(name, kind, *arguments):
    found = kind()
    status = getattr(driver, name)(ctypes.byref(found), *arguments)
    assert status == 0, f"{name}: CUDA error {status}"
    return found.value
assert (status := driver.cuInit(0)) == 0, f"cuInit: CUDA error {status}"
count = ask("cuDeviceGetCount", ctypes.c_int)
assert count > 0, "the driver shows no GPU"
device, name = ask("cuDeviceGet", ctypes.c_int, 0), ctypes.create_string_buffer(128)
assert driver.cuDeviceGetName(name, 128, device) == 0
print(json.dumps([count, name.value.decode(), ask("cuDeviceGetAttribute", ctypes.c_int, 16, device)]))
"""
"""Asks the driver, without torch and without a context; attribute 16 is the number of SMs."""

Say = Callable[[str], None]
Listen = Callable[[Outcome], None]


@dataclass(frozen=True)
class Gpus:
    """The GPUs of this machine: how many, their name, and the SMs of each."""

    count: int
    name: str
    sms: int


def found(count: int | None = None) -> Gpus | str:
    """The GPUs here, asked in a process of its own; or why there are none.

    Args:
        count: how many of them to place ranks on, by default all.
    """
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True)
    if done.returncode:
        return f"needs GPUs: {last_line(done.stderr)}"
    gpus = Gpus(*json.loads(done.stdout))
    if count is not None and gpus.count < count:
        return f"needs {count} GPUs: the driver shows {gpus.count}"
    return replace(gpus, count=count or gpus.count)


def play_all(
    trials: Sequence[Trial], gpus: Gpus | str, listen: Listen = lambda outcome: None, say: Say = lambda line: None
) -> Iterator[Outcome]:
    """What comes of each trial. Trials of one start share its processes; one that a rank does not survive ends it, and
    a new one plays those behind.

    Args:
        trials: what to play.
        gpus: those to play on, or why there are none.
        listen: told of each outcome as soon as it is known, which is before the start that it is of has ended.
        say: takes lines about starts.
    """
    waiting = []
    for trial in trials:
        reason = gpus if isinstance(gpus, str) else unseated(trial, gpus)
        if reason is None:
            waiting.append(trial)
            continue
        listen(void := Outcome(trial, "void", reason))
        yield void
    if isinstance(gpus, str) or not waiting:
        return
    for company in companies([trial.layout for trial in waiting], gpus.count):
        left = [trial for layout in company.layouts for trial in waiting if trial.layout == layout]
        while left:
            outcomes = _Start(company, left, gpus, listen, say).play()
            yield from outcomes
            del left[: len(outcomes)]


def unseated(trial: Trial, gpus: Gpus) -> str | None:
    """Why a trial finds no room on these GPUs, or None."""
    try:
        most = colocation.place(Layout.parse(trial.layout), gpus.count).transport_sms(gpus.sms)
    except PlacementError as error:
        return error.problem
    shared = colocation.place(Layout.parse(trial.layout), gpus.count).is_shared
    if shared and trial.shape.transport_sms > most:
        return f"ranks that share {gpus.count} GPUs have room for {most} transport SMs each, not for these"
    return None


@dataclass
class _Start:
    """One start of a company's ranks, which plays trials up to the first that a rank does not survive."""

    company: Company
    trials: Sequence[Trial]
    gpus: Gpus
    listen: Listen
    say: Say
    outcomes: list[Outcome] = field(default_factory=list)
    _reports: dict[int, dict[int, Report]] = field(default_factory=dict)
    _lost: bool = False
    _began: float = field(default_factory=time.monotonic)

    def play(self) -> list[Outcome]:
        """What came of the trials that were played."""
        placement = self.company.placement
        self.say(f"starting {len(placement.seats)} ranks for {', '.join(self.company.layouts)}")
        try:
            with tempfile.TemporaryDirectory(prefix="validation-") as name, mps.shares(placement, os.environ) as shares:
                endings = launch.run(_start(Path(name), self.trials, placement, shares), self._hear)
        except MpsError as error:
            for trial in self.trials:
                self._end(Outcome(trial, "void", f"needs MPS: {error.reason}"))
            return self.outcomes
        for rank, why in endings.items():
            self.say(f"rank {rank} ended: {why}")
        index = len(self.outcomes)
        is_told = index in self._reports or not self._lost
        if index < len(self.trials) and (is_told or index == 0):  # a start without an outcome would be made for ever
            self._end(self._outcome(index, endings))
        return self.outcomes

    def _hear(self, rank: int, event: Mapping[str, Any]) -> None:
        if event["event"] == READY:
            after = time.monotonic() - self._began
            self.say(f"rank {rank} ready in {event['seconds']:.1f} s, {after:.1f} s after its start")
        self._lost |= event["event"] == LOST
        if event["event"] != PART:
            return
        self._reports.setdefault(event["trial"], {})[rank] = Report(**event["report"])
        while (index := len(self.outcomes)) < len(self.trials) and self._is_complete(index):
            self._end(self._outcome(index, {}))

    def _is_complete(self, index: int) -> bool:
        return len(self._reports.get(index, {})) == Layout.parse(self.trials[index].layout).num_ranks

    def _outcome(self, index: int, endings: Mapping[int, str]) -> Outcome:
        trial = self.trials[index]
        outcome = outcome_of(trial, self._reports.pop(index, {}), endings)
        own = colocation.place(Layout.parse(trial.layout), self.gpus.count)
        return replace(outcome, machine=self.gpus.name, ranks_per_gpu=own.ranks_per_gpu)

    def _end(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.listen(outcome)


def _start(
    folder: Path, trials: Sequence[Trial], placement: Placement, shares: Sequence[Mapping[str, str]]
) -> launch.Start:
    told = {"gpus": [seat.gpu for seat in placement.seats], "trials": [dataclasses.asdict(trial) for trial in trials]}
    job = folder / "trials.json"
    job.write_text(json.dumps(told), encoding="utf-8")
    return launch.Start(job, REPOSITORY, shares, _GRACE_S, folder, os.environ, module="harness.validation.rank")


def outcome_of(trial: Trial, reports: Mapping[int, Report], endings: Mapping[int, str]) -> Outcome:
    """What the reports of all ranks make of a trial.

    Args:
        trial: what was played.
        reports: by rank; one that said nothing is missing.
        endings: why ranks ended badly, by rank.
    """
    layout = Layout.parse(trial.layout)
    reasons = {rank: report.reason for rank, report in reports.items() if report.reason and not report.told}
    silent = [rank for rank in range(layout.num_ranks) if rank not in reports]
    reasons |= {rank: endings.get(rank, "said nothing of this trial") for rank in silent}
    identities = {(report.native_digest, report.protocol) for report in reports.values()}
    if len(identities) > 1:
        reasons[0] = f"expected one library on all ranks, received {sorted(map(str, identities))}"
    digest, protocol = next(iter(identities), (None, None))
    told = {rank: report.reason for rank, report in reports.items() if report.told}
    played = Outcome(
        *(trial, "ok", None),
        elements=sum(report.elements for report in reports.values()),
        native_digest=digest,
        protocol=protocol,
        made_s=max((report.made_s for report in reports.values()), default=0.0),
        played_s=max((report.played_s for report in reports.values()), default=0.0),
    )
    if reasons or told:
        said = "; ".join(f"rank {rank}: {reason}" for rank, reason in sorted((reasons or told).items()))
        return replace(played, status="failed", reason=said)
    seen = seen_by(trial, trial.exchange_shape, reports)
    return judged(replace(played, exchanges=seen.exact, free=seen.free), seen)
