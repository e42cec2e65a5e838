"""One rank that plays trials: `python -P -m harness.faults.rank TRIALS.json` with its number in RANK.

It loads the library of each trial beside those of the trials before, and says on standard output what came of its part.
It ends where its GPU, or a peer, is of no more use; whoever started it starts ranks anew for the trials behind.
"""

import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from harness import events
from harness.decode import decode
from harness.faults.part import ENDING, EXACT, PART, READY, PeerLostError, Report, kind, leave, play, words
from harness.faults.payload import Payloads
from harness.faults.rank_end import RankEnd
from harness.faults.trials import Trial
from harness.leaving import leave as leave_process
from harness.leaving import leave_with_the_starter

_HOST_TIMEOUT = timedelta(seconds=20)
"""Of one meeting of the hosts; a peer whose process is gone ends it at once."""

_OVERDUE = 76
"""Exit status of a rank that was still there when the time for its start was over."""


def main(path: Path, rank: int) -> int:
    """Play this rank's part of every trial, or of those up to one that ends it: then 1."""
    leave_with_the_starter()
    started = time.monotonic()
    told = json.loads(path.read_text(encoding="utf-8"))
    _end_after(told["limit_s"])
    torch.cuda.set_device(told["gpus"][rank])
    dist.init_process_group("gloo", timeout=_HOST_TIMEOUT)
    _load_kernels_of_torch()
    events.say(READY, seconds=round(time.monotonic() - started, 3))
    return _play_all([decode(Trial, data) for data in told["trials"]], told)


def _play_all(trials: Sequence[Trial], told: dict[str, Any]) -> int:
    payloads = Payloads()
    for index, trial in enumerate(trials):
        report, is_usable = part(trial, told, payloads)
        events.say(PART, trial=index, report=dataclasses.asdict(report))
        if not is_usable or not _all_go_on():
            return 1
        if report.ended != EXACT:  # its kernels may have written anywhere: nothing that others are compared with stays
            payloads = Payloads()
    return 0


def part(trial: Trial, told: dict[str, Any], payloads: Payloads) -> tuple[Report, bool]:
    """This rank's part of a trial, from the making of its Buffer to its giving back; collective.

    Returns:
        What it says, and whether this process can play another trial.
    """
    report, started = Report(), time.monotonic()
    library = Path(told["libraries"]) / f"{trial.library}.so"
    try:
        end = RankEnd(trial, library, payloads, told["timeout_s"], told["stuck_s"], _meet)
    except Exception as error:
        report.ended, report.reason = kind(error), words(error)
        report.seconds = round(time.monotonic() - started, 3)
        return report, report.ended not in ENDING
    play(trial, end, _agree, report)
    is_usable = report.ended not in ENDING and _given_back(end, report)
    report.seconds = round(time.monotonic() - started, 3)
    return report, is_usable


def _given_back(end: RankEnd, report: Report) -> bool:
    """Close the Buffer; a rank that cannot must leave, and what it found before stays."""
    try:
        end.close()
    except Exception as error:
        leave(report, error)
        return False
    return True


def _gathered(value: str) -> Sequence[str]:
    found: list[Any] = [None] * dist.get_world_size()
    try:
        dist.all_gather_object(found, value)
    except RuntimeError as error:
        raise PeerLostError(words(error)) from error
    return found


def _agree(ended: str) -> Sequence[str]:
    return _gathered(ended)


def _meet() -> None:
    _gathered(EXACT)


def _all_go_on() -> bool:
    """Whether no rank had to leave as it gave its Buffer back; collective."""
    try:
        _gathered(EXACT)
    except PeerLostError:
        return False
    return True


def _load_kernels_of_torch() -> None:
    """What is launched beside spinning kernels must be loaded before: a load may wait for an idle device."""
    bits = torch.zeros((2, 8), dtype=torch.int16, device="cuda")
    bits.fill_(-1)
    torch.equal(bits, bits.clone())
    int((bits != bits).any(dim=1).sum()), int(((bits == -1).all(dim=1) & (bits != bits).any(dim=1)).sum())
    torch.cuda._sleep(1)
    torch.cuda.synchronize()


def _end_after(limit_s: float) -> None:
    timer = threading.Timer(limit_s, os._exit, [_OVERDUE])
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    leave_process(main(Path(sys.argv[1]), int(os.environ["RANK"])))
