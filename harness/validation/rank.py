"""One rank that plays trials: `python -P -m harness.validation.rank TRIALS.json` with its number in RANK.

It says on standard output what came of its part of each trial; whoever started it makes outcomes of all ranks' parts.
"""

import dataclasses
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from afdep.arms import Arm
from afdep.device_errors import AgreementError
from afdep.layout import Layout
from harness import events
from harness.decode import decode
from harness.leaving import leave, leave_with_the_starter
from harness.validation.cases import Trial
from harness.validation.part import PART, Report, play
from harness.validation.rank_end import RankEnd

_TIMEOUT_S = 10.0
_HOST_TIMEOUT = timedelta(seconds=300)


def main(path: Path, rank: int) -> int:
    """Play this rank's part of every trial, or of those up to the first that fails here: then 1."""
    leave_with_the_starter()
    told = json.loads(path.read_text(encoding="utf-8"))
    torch.cuda.set_device(told["gpus"][rank])
    dist.init_process_group("gloo", timeout=_HOST_TIMEOUT)
    for index, data in enumerate(told["trials"]):
        report = part(decode(Trial, data), rank)
        events.say(PART, trial=index, report=dataclasses.asdict(report))
        if report.reason is not None:  # peers may be anywhere in this trial: those after it need ranks that are in step
            return 1
    return 0


def part(trial: Trial, rank: int) -> Report:
    """This rank's part of a trial; collective."""
    report = Report()
    try:
        end = RankEnd(trial, arm_of(trial, rank), _TIMEOUT_S)
    except AgreementError as error:
        asked = dict(Arm.parse(trial.arm).switches)
        report.refused = int(trial.case.one_role and error.field in asked)
        report.reason = None if report.refused else f"AgreementError: {error.problem}"
        return report
    identity = end.buffer.identity
    report.native_digest, report.protocol = str(identity["digest"]), str(identity["protocol"])
    report.switches = identity["switches"]
    play(trial, end, report)
    if report.reason is None:
        end.close()
    return report


def arm_of(trial: Trial, rank: int) -> str:
    """The arm of a rank: where a role has a control of its own, that is the FFN ranks'."""
    alone = trial.case.one_role and Layout.parse(trial.layout).role(rank) != "ffn"
    return Arm.parse("afdep").name if alone else trial.arm


if __name__ == "__main__":
    leave(main(Path(sys.argv[1]), int(os.environ["RANK"])))
