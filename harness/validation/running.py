"""Trials of both backends, and what came of them in the order they were declared."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from multiprocessing import get_context

from afdep.build import build, build_cuda
from harness.leaving import leave_with_the_parent
from harness.validation import on_gpus
from harness.validation.cases import Trial
from harness.validation.outcome import Outcome
from harness.validation.playing import perform


def run_all(
    trials: Sequence[Trial],
    jobs: int,
    listen: Callable[[Outcome], None],
    say: Callable[[str], None] = lambda line: None,
    gpus: int | None = None,
) -> list[Outcome]:
    """Play every trial, whatever came of those before.

    Args:
        trials: in order; those of the simulator run in processes of a pool, those of GPUs one after another.
        jobs: processes of the pool; one plays them here.
        listen: told after each trial, as it ends.
        say: takes lines about starts of rank processes.
        gpus: how many GPUs ranks are placed on, by default all there are.
    """
    outcomes: list[Outcome] = []
    for backend, group in groupby(trials, key=lambda trial: trial.backend):
        own = list(group)
        if backend == "cuda":
            found = on_gpus.found(gpus)
            if isinstance(found, on_gpus.Gpus):
                build_cuda()  # here, where it may take its time: ranks find it built
            outcomes += on_gpus.play_all(own, found, listen, say)
            continue
        for outcome in _simulated(own, jobs):
            listen(outcome)
            outcomes.append(outcome)
    order = {trial: index for index, trial in enumerate(trials)}
    return sorted(outcomes, key=lambda outcome: order[outcome.trial])


def _simulated(trials: Sequence[Trial], jobs: int) -> Iterator[Outcome]:
    build()
    if jobs == 1:
        yield from map(perform, trials)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=leave_with_the_parent) as pool:
        yield from pool.map(perform, trials)
