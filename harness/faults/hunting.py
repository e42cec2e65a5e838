"""The same controls in the hunt: seeds until one fails, or what the race checker says."""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from afdep.build import build
from afdep.digest import native_digest
from afdep.proof.hunt import run_seed
from afdep.proof.scenario import Hunt
from harness.errors import UsageError
from harness.faults import races
from harness.faults.guards import GUARDS
from harness.faults.judging import PASSED
from harness.faults.plant import Plant, build_with, planted
from harness.faults.trials import ARMS, CAUGHT, EXACT, NOTHING
from harness.process import last_line

FOUND, RACE = "caught: hunt", "caught: race checker"
_RACE_SEEDS = 2
_WARNING = "WARNING: ThreadSanitizer: data race"


@dataclass(frozen=True)
class Hunted:
    """What came of a control in the hunt.

    Args:
        control, arm: as in Trial.
        expects: exact, or caught.
        outcome: exact, failed, passed, or what caught it.
        reason: what was found, in words, or None.
        seeds: that were run, the last of which found it.
        digest: of the edited tree.
        seconds: that the seeds took.
    """

    control: str
    arm: str
    expects: str
    outcome: str
    reason: str | None
    seeds: int
    digest: str
    seconds: float


def hunt_all(shipped_seeds: int, listen: Callable[[Hunted], None]) -> list[Hunted]:
    """Hunt the kernels as shipped, and without each guard.

    Args:
        shipped_seeds: of each arm as it is shipped.
        listen: told of each, as it ends.
    """
    done = []
    for hunted in (*_as_shipped(shipped_seeds), *(without(guard.plant) for guard in GUARDS)):
        listen(hunted)
        done.append(hunted)
    return done


def _as_shipped(seeds: int) -> Iterator[Hunted]:
    library = build()
    for arm in ARMS:
        number, reason, seconds = _first(Hunt.small(arm, library=library), seeds)
        outcome = EXACT if reason is None else "failed"
        yield Hunted(NOTHING, arm, EXACT, outcome, reason, number, str(native_digest("sim")), seconds)


def without(plant: Plant) -> Hunted:
    """Hunt a plant within its budget, or ask the race checker where no schedule shows it.

    Raises:
        UsageError: the checker has not run to its end, and has found nothing.
    """
    with tempfile.TemporaryDirectory(prefix="plant-") as name:
        digest = _digest(plant, Path(name) / "digest")
        seek = _races if plant.finder == "races" else _seeds
        number, reason, seconds = seek(plant, Path(name))
    said = PASSED if reason is None else RACE if plant.finder == "races" else FOUND
    return Hunted(plant.name, plant.arm, CAUGHT, said, reason, number, digest, seconds)


def _digest(plant: Plant, folder: Path) -> str:
    return str(native_digest("sim", planted(plant, folder)))


def _seeds(plant: Plant, folder: Path) -> tuple[int, str | None, float]:
    shape = {} if plant.tokens is None else {"capacity": plant.tokens, "most_tokens": plant.tokens}
    library = build_with(plant, folder)
    hunt = Hunt.small(plant.arm, library=library, fiber=plant.fiber, aborts=plant.aborts, **shape)
    return _first(hunt, plant.budget)


def _first(hunt: Hunt, budget: int) -> tuple[int, str | None, float]:
    """Seeds until one fails: how many, how it fails, and the seconds that they took."""
    started = time.monotonic()
    for seed in range(budget):
        if (finding := run_seed(hunt, seed)) is not None:
            return seed + 1, str(finding), time.monotonic() - started
    return budget, None, time.monotonic() - started


def _races(plant: Plant, folder: Path) -> tuple[int, str | None, float]:
    library = races.library(planted(plant, folder))
    started = time.monotonic()
    said = races.report(library, plant.arm, _RACE_SEEDS)
    if said != races.CLEAN and _WARNING not in said:
        raise UsageError(
            f"race checker: expected a data race or {races.CLEAN!r}, received {last_line(said)!r}.",
            "Run the tests of tests/hunt/test_races.py here: they say whether the checker runs on this machine.",
        )
    return _RACE_SEEDS, None if said == races.CLEAN else "data race", time.monotonic() - started
