"""Measured cells simulated: the routes that the device timed, again and again, and the mean over exchanges.

A replay on the device holds one load many times over, and its figure is its time over its exchanges: a mean. What is
simulated here is the same, where a screen on the simulator draws new routes for each exchange and takes the median.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from afdep import Machine, World
from harness import loads
from harness.fit.cells import Samples, changed, timed
from harness.fit.measured.targets import Place
from harness.statistics import cell_latency_us


@dataclass(frozen=True)
class Simulator:
    """What all replays of a fit share: a machine as its file has it, the native library, and its digest."""

    machine: Machine
    library: Path
    native_digest: str


@dataclass(frozen=True)
class Replay:
    """One cell of one arm, timed in a world of its own.

    Args:
        simulator: shared.
        place: the cell.
        values: constants that differ from the simulator's machine.
        exchanges: timed ones.
    """

    simulator: Simulator
    place: Place
    values: Mapping[str, float]
    exchanges: int


def world(simulator: Simulator, place: Place, values: Mapping[str, float]) -> World:
    """The world of a cell, of the shape that its plan states."""
    row, exchange = place.series.row, place.series.exchange
    return World(
        row.layout,
        **exchange.shape_of(row),
        arm=place.arm,
        machine=changed(simulator.machine, values),
        mode="time",
        library=simulator.library,
    )


def simulate(replay: Replay) -> Samples:
    """Round trips in us of each Attention rank, one per exchange."""
    row, cell = replay.place.series.row, replay.place.cell
    (load,) = loads.make(replay.place.series.exchange, row, cell.tokens, 1)
    return timed(world(replay.simulator, replay.place, replay.values), [load] * replay.exchanges, cell.bucket)


def cell_us(samples: Samples) -> float:
    """The figure of a cell: the maximum over Attention ranks of their means."""
    return cell_latency_us(fmean(one) for one in samples)


def replays(
    simulator: Simulator, places: Iterable[Place], values: Mapping[str, float], exchanges: int
) -> Sequence[Replay]:
    """One a cell."""
    return [Replay(simulator, place, dict(values), exchanges) for place in places]
