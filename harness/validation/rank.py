"""One rank that plays trials: `python -P -m harness.validation.rank TRIALS.json` with its number in RANK.

It says on standard output what came of its part of each trial; whoever started it makes outcomes of all ranks' parts. A
trial is played by the first ranks, as many as its layout has; the others wait at its end.
"""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from afdep.arms import Arm
from afdep.device_errors import AgreementError, DeviceError
from afdep.errors import AfdepError
from afdep.layout import Layout
from harness import events
from harness.decode import decode
from harness.leaving import leave, leave_with_the_starter
from harness.validation.cases import Trial
from harness.validation.course import in_words
from harness.validation.meeting import Meeting
from harness.validation.part import LOST, PART, READY, PeerFailedError, Report, play
from harness.validation.rank_end import RankEnd
from harness.validation.watchdog import Watchdog

_TRIAL_LIMIT_S = 30.0
"""When a rank ends that still plays a trial: every wait on the device has long timed out by then."""

_HOST_TIMEOUT = timedelta(seconds=60)


def main(path: Path, rank: int) -> int:
    """Play this rank's part of every trial, or of those up to one that leaves a rank's GPU unusable: then 1."""
    leave_with_the_starter()
    started = time.monotonic()
    told = json.loads(path.read_text(encoding="utf-8"))
    torch.cuda.set_device(told["gpus"][rank])
    torch.zeros((), device="cuda")  # makes the context, so that no trial's time holds it
    dist.init_process_group("gloo", timeout=_HOST_TIMEOUT)
    trials = [decode(Trial, data) for data in told["trials"]]
    groups = _groups([Layout.parse(trial.layout).num_ranks for trial in trials], len(told["gpus"]))
    events.say(READY, seconds=round(time.monotonic() - started, 3))
    return _play_all(trials, rank, groups)


def _groups(sizes: Sequence[int], all_ranks: int) -> Mapping[int, Any]:
    """The group of the first ranks, by how many; collective."""
    made = {size: dist.new_group(list(range(size)), _HOST_TIMEOUT) for size in sorted({*sizes} - {all_ranks})}
    return {**made, all_ranks: None}


def _play_all(trials: Sequence[Trial], rank: int, groups: Mapping[int, Any]) -> int:
    watchdog = Watchdog()
    for index, trial in enumerate(trials):
        ranks = Layout.parse(trial.layout).num_ranks
        lost = _play(index, trial, rank, groups[ranks], watchdog) if rank < ranks else None
        try:
            Meeting(None).meet(lost)
        except PeerFailedError as told:
            lost = str(told)
        if lost is not None:  # a fresh start plays the trials behind
            events.say(LOST)
            return 1
    return 0


def _play(index: int, trial: Trial, rank: int, group: Any, watchdog: Watchdog) -> str | None:
    report = Report()

    def say() -> None:
        events.say(PART, trial=index, report=dataclasses.asdict(report))

    def say_stuck() -> None:
        say()
        events.say(LOST)

    with watchdog.over(_TRIAL_LIMIT_S, report, say_stuck):
        lost = part(trial, rank, group, report)
    say()
    return lost


def part(trial: Trial, rank: int, group: Any, report: Report) -> str | None:
    """This rank's part of a trial, from the making of its Buffer to its giving back; collective, and all leave in step.

    Returns:
        Why no other trial can be played by this process, or None.
    """
    started = time.monotonic()
    try:
        end = RankEnd(trial, arm_of(trial, rank), group)
    except AgreementError as error:
        asked = dict(Arm.parse(trial.arm).switches)
        report.refused = int(trial.case.one_role and error.field in asked)
        report.reason = None if report.refused else f"AgreementError: {error.problem}"
        return None
    except Exception as error:
        report.reason = in_words(error)
        # What every rank refuses leaves all in step; CUDA may have left this GPU's context behind.
        refused = isinstance(error, AfdepError) and not isinstance(error, DeviceError)
        return None if refused else report.reason
    report.made_s = round(time.monotonic() - started, 3)
    identity = end.buffer.identity
    report.native_digest, report.protocol = str(identity["digest"]), str(identity["protocol"])
    report.switches = identity["switches"]
    play(trial, end, report)
    report.played_s = round(time.monotonic() - started - report.made_s, 3)
    return _given_back(end, report)


def _given_back(end: RankEnd, report: Report) -> str | None:
    """Close the Buffer; why that could not be done."""
    try:
        end.close()
    except Exception as error:
        report.reason = report.reason or f"giving back: {in_words(error)}"
        return in_words(error)
    return None


def arm_of(trial: Trial, rank: int) -> str:
    """The arm of a rank: where a role has a control of its own, that is the FFN ranks'."""
    alone = trial.case.one_role and Layout.parse(trial.layout).role(rank) != "ffn"
    return Arm.parse("afdep").name if alone else trial.arm


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), int(os.environ["RANK"])))
