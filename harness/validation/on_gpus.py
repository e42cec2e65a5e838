"""Trials on GPUs: one start of a layout's rank processes plays its trials in turn, until one fails."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from afdep.layout import Layout
from afdep.shapes import ExchangeShape
from harness import colocation, mps
from harness.colocation import Placement
from harness.device import launch
from harness.errors import MpsError, PlacementError
from harness.process import last_line
from harness.validation.cases import Trial
from harness.validation.outcome import Outcome, judged
from harness.validation.part import PART, Report, seen_by
from harness.workspace import REPOSITORY

_GRACE_S = 20.0
_PROBE = (
    "import json, torch; p = torch.cuda.get_device_properties(0); "
    "print(json.dumps([torch.cuda.device_count(), p.name, p.multi_processor_count]))"
)


@dataclass(frozen=True)
class Gpus:
    """The GPUs of this machine: how many, their name, and the SMs of each."""

    count: int
    name: str
    sms: int


def found() -> Gpus | str:
    """The GPUs here, asked in a process of its own, which leaves no context behind; or why there are none."""
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True)
    if done.returncode:
        return f"needs GPUs: {last_line(done.stderr)}"
    return Gpus(*json.loads(done.stdout))


def play_all(trials: Sequence[Trial], gpus: Gpus | str) -> Iterator[Outcome]:
    """What comes of each trial, layout by layout: trials of one share the start of its ranks."""
    waiting = sorted(trials, key=lambda trial: trial.layout)
    while waiting:
        reason = gpus if isinstance(gpus, str) else unseated(waiting[0], gpus)
        if reason is not None:
            yield Outcome(waiting.pop(0), "void", reason)
            continue
        assert isinstance(gpus, Gpus)
        together = _together(waiting, gpus)
        outcomes = _play(together, gpus)
        yield from outcomes
        del waiting[: len(outcomes)]


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


def _together(waiting: Sequence[Trial], gpus: Gpus) -> list[Trial]:
    """The first trials, as far as they are of one layout and have room."""
    together: list[Trial] = []
    for trial in waiting:
        if trial.layout != waiting[0].layout or unseated(trial, gpus) is not None:
            break
        together.append(trial)
    return together


@dataclass
class _Heard:
    """The reports of a start, by trial and rank."""

    reports: dict[int, dict[int, Report]] = field(default_factory=dict)

    def hear(self, rank: int, event: Mapping[str, Any]) -> None:
        if event["event"] == PART:
            self.reports.setdefault(event["trial"], {})[rank] = Report(**event["report"])


def _play(trials: Sequence[Trial], gpus: Gpus) -> list[Outcome]:
    """What comes of these trials, up to the first that fails."""
    placement = colocation.place(Layout.parse(trials[0].layout), gpus.count)
    heard = _Heard()
    try:
        with tempfile.TemporaryDirectory(prefix="validation-") as name, mps.shares(placement, os.environ) as shares:
            endings = launch.run(_start(Path(name), trials, placement, shares), heard.hear)
    except MpsError as error:
        return [Outcome(trial, "void", f"needs MPS: {error.reason}") for trial in trials]
    outcomes = []
    for index, trial in enumerate(trials):
        outcome = outcome_of(trial, heard.reports.get(index, {}), endings)
        outcomes.append(replace(outcome, machine=gpus.name, ranks_per_gpu=placement.ranks_per_gpu))
        if outcome.status == "failed" and endings:
            break
    return outcomes


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
    reasons = {rank: report.reason for rank, report in reports.items() if report.reason}
    silent = [rank for rank in range(layout.num_ranks) if rank not in reports]
    reasons |= {rank: endings.get(rank, "said nothing of this trial") for rank in silent}
    identities = {(report.native_digest, report.protocol) for report in reports.values()}
    if len(identities) > 1:
        reasons[0] = f"expected one library on all ranks, received {sorted(map(str, identities))}"
    digest, protocol = next(iter(identities), (None, None))
    elements = sum(report.elements for report in reports.values())
    if reasons:
        said = "; ".join(f"rank {rank}: {reason}" for rank, reason in sorted(reasons.items()))
        return Outcome(trial, "failed", said, elements=elements, native_digest=digest, protocol=protocol)
    seen = seen_by(trial, _shape(trial, layout), reports)
    played = Outcome(trial, "ok", None, seen.exact, seen.free, elements, 0, digest, protocol)
    return judged(played, seen)


def _shape(trial: Trial, layout: Layout) -> ExchangeShape:
    told: dict[str, Any] = {key: value for key, value in trial.world_fields().items() if key != "arm"}
    return ExchangeShape(**(told | {"layout": layout}))
