"""`python -m harness.device out=DIR arms=m2n,afdep NAME=VALUE...`: prove and time arms on this machine's GPUs.

Prints a line per arm and repeat, and writes records to DIR/records; exits 1 where a run failed. Arms with switches
are parted by semicolons.
"""

import dataclasses
import statistics
import sys
from pathlib import Path

from harness.device import launch, recording
from harness.device.launch import Outcome
from harness.device.settings import Settings
from harness.digests import harness_digest, source_digest
from harness.leaving import leave
from harness.records import write
from harness.workspace import REPOSITORY


def main(words: list[str]) -> int:
    """Run what the words say."""
    given = dict(word.partition("=")[::2] for word in words)
    folder = Path(given.pop("out", "out/device"))
    arms = given.pop("arms", given.pop("arm", "m2n,afdep"))
    settings = Settings.parse([f"{name}={value}" for name, value in given.items()])
    failed = False
    for repeat in range(settings.repeats):
        for position, arm in enumerate(_rotated(arms.split(";" if ";" in arms else ","), repeat)):
            outcome = launch.run(dataclasses.replace(settings, arm=arm), repeat, position, folder)
            failed |= _report(outcome)
            digests = source_digest(REPOSITORY), harness_digest(REPOSITORY)
            write(folder / "records", recording.records(outcome, position, *digests))
    return int(failed)


def _rotated(arms: list[str], repeat: int) -> list[str]:
    first = repeat % len(arms)
    return arms[first:] + arms[:first]


def _report(outcome: Outcome) -> bool:
    if outcome.failure:
        print(f"{outcome.settings.arm} repeat {outcome.repeat} failed: {outcome.failure}\n{outcome.log}", flush=True)
        return True
    print(launch.table([outcome], slowest_source_us), flush=True)
    return False


def slowest_source_us(outcome: Outcome, tokens: int) -> float:
    """The figure of a cell: the slowest Attention rank's median round trip in us."""
    return max(
        float(statistics.median(cell["samples_us"]))
        for rank in outcome.ranks.values()
        if rank["role"] == "attention"
        for cell in rank["cells"]
        if cell["tokens"] == tokens
    )


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
