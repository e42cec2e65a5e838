"""Seeds in parallel: each process takes a stretch of them at a time and runs it to its end or to its first finding."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context

from afdep.proof.hunt import run_seed
from afdep.proof.scenario import Hunt
from harness.leaving import leave_with_the_parent

_STRETCH = 250
_STRETCHES_A_JOB = 4


@dataclass(frozen=True)
class Stretch:
    """What came of some seeds.

    Args:
        seeds_run: how many ran.
        failed: the seed that failed, or None.
    """

    seeds_run: int
    failed: int | None


@dataclass
class Outcome:
    """What came of the hunt of an arm.

    Args:
        seeds_run: how many seeds ran.
        failed: the seeds that failed, in order.
    """

    seeds_run: int = 0
    failed: list[int] = field(default_factory=list)

    def add(self, stretch: Stretch) -> None:
        self.seeds_run += stretch.seeds_run
        if stretch.failed is not None:
            self.failed = sorted([*self.failed, stretch.failed])


def run_all(hunt: Hunt, seeds: Sequence[int], jobs: int, listen: Callable[[Outcome], None]) -> Outcome:
    """Run seeds until one fails; the stretches that run then still end.

    Args:
        hunt: its library must be built.
        seeds: in order.
        jobs: processes at a time; one runs them here.
        listen: told after each stretch.
    """
    outcome = Outcome()
    stretches = _stretches(seeds, jobs)
    for stretch in _here(hunt, stretches) if jobs == 1 else _parallel(hunt, stretches, jobs):
        outcome.add(stretch)
        listen(outcome)
    return outcome


def run_stretch(hunt: Hunt, seeds: Sequence[int]) -> Stretch:
    """Run seeds to their end or to the first that fails."""
    for count, seed in enumerate(seeds, 1):
        if run_seed(hunt, seed) is not None:
            return Stretch(count, seed)
    return Stretch(len(seeds), None)


def _stretches(seeds: Sequence[int], jobs: int) -> list[Sequence[int]]:
    length = max(1, min(_STRETCH, len(seeds) // (jobs * _STRETCHES_A_JOB)))
    return [seeds[first : first + length] for first in range(0, len(seeds), length)]


def _here(hunt: Hunt, stretches: Sequence[Sequence[int]]) -> Iterator[Stretch]:
    for seeds in stretches:
        stretch = run_stretch(hunt, seeds)
        yield stretch
        if stretch.failed is not None:
            return


def _parallel(hunt: Hunt, stretches: Sequence[Sequence[int]], jobs: int) -> Iterator[Stretch]:
    waiting = list(reversed(stretches))
    running: set[Future[Stretch]] = set()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=leave_with_the_parent) as pool:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.add(pool.submit(run_stretch, hunt, waiting.pop()))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                if future.result().failed is not None:
                    waiting.clear()
                yield future.result()
