"""Trials in parallel processes, each as soon as one is free, and what came of them in the order they were declared."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from afdep.build import build
from harness.leaving import leave_with_the_parent
from harness.validation.cases import Trial
from harness.validation.playing import Outcome, perform


def run_all(trials: Sequence[Trial], jobs: int, listen: Callable[[Outcome], None]) -> list[Outcome]:
    """Play every trial, whatever came of those before.

    Args:
        trials: in order.
        jobs: processes at a time; one plays them here.
        listen: told after each trial, in order.
    """
    build()
    outcomes = []
    for outcome in map(perform, trials) if jobs == 1 else _parallel(trials, jobs):
        listen(outcome)
        outcomes.append(outcome)
    return outcomes


def _parallel(trials: Sequence[Trial], jobs: int) -> Iterator[Outcome]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=leave_with_the_parent) as pool:
        yield from pool.map(perform, trials)
