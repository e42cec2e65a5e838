"""Cells simulated with a changed machine, several processes at a time; what they give does not depend on how many."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Protocol, TypeVar

from afdep import Load, Machine, World
from harness import loads
from harness.screen_config import Exchange, Row
from harness.leaving import leave_with_the_parent
from harness.statistics import cell_latency_us

Samples = tuple[tuple[float, ...], ...]
"""Round trips in us of each Attention rank, one per exchange."""


@dataclass(frozen=True)
class Bench:
    """What all cells of a fit share.

    Args:
        exchange: top-k, capacity, transport SMs and seed.
        machine: as its file has it.
        library: the native library.
        native_digest: as the library reports it.
    """

    exchange: Exchange
    machine: Machine
    library: Path
    native_digest: str


@dataclass(frozen=True)
class Task:
    """One cell of one arm, timed in a world of its own.

    Args:
        values: constants that differ from the bench's machine.
        exchanges: timed ones, with the routes that the cell's first ones have in every screen.
    """

    bench: Bench
    row: Row
    tokens: int
    arm: str
    values: Mapping[str, float]
    exchanges: int


class Runner(Protocol):
    """Runs tasks and yields their samples in order."""

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Samples]: ...


T = TypeVar("T")


@contextmanager
def runner(jobs: int) -> Iterator[Runner]:
    """A runner of that many processes, kept for all its calls; one runs the tasks here."""
    with mapping(jobs, simulate) as run:
        yield lambda tasks: run(tasks)


@contextmanager
def mapping(jobs: int, work: Callable[[T], Samples]) -> Iterator[Callable[[Sequence[T]], Iterator[Samples]]]:
    """As `runner`, for tasks of any kind; `work` is a function of a module."""
    if jobs == 1:
        yield lambda tasks: map(work, tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=leave_with_the_parent) as pool:
        yield lambda tasks: pool.map(work, tasks)


def simulate(task: Task) -> Samples:
    """Time one cell; its exchanges are not proved, since times do not depend on what is moved."""
    row, exchange = task.row, task.bench.exchange
    world = World(
        row.layout,
        **exchange.shape_of(row),
        arm=task.arm,
        machine=changed(task.bench.machine, task.values),
        mode="time",
        library=task.bench.library,
    )
    return timed(world, loads.make(exchange, row, task.tokens, task.exchanges), exchange.bucket or task.tokens)


def timed(world: World, sent: Sequence[Load], bucket: int) -> Samples:
    """Round trips of a world in the mode `time`."""
    timing = world.time_exchanges(sent, bucket)
    return tuple(tuple(timing.per_rank_us[rank]) for rank in world.layout.attention_rank_ids)


def changed(machine: Machine, values: Mapping[str, float]) -> Machine:
    """The machine with some constants changed."""
    table = (dataclasses.replace(one, value=values.get(one.name, one.value)) for one in machine.table)
    return Machine(machine.name, tuple(table))


def cell_us(samples: Samples) -> float:
    """The figure of a cell, as every screen has it: the maximum over Attention ranks of their medians."""
    return cell_latency_us(map(median, samples))
