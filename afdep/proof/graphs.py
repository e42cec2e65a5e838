"""Exchanges of known payload as a graph: captured once, replayed on inputs that change in place."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep.proof import payload
from afdep.proof.exchanges import Exchange, check, enqueue
from afdep.reference import Sent
from afdep.routing import Load
from afdep.sim.buffers import Buffers

_REPLAYS = 2


def prove_replays(world: Buffers, rounds: Sequence[Sequence[Load]], bucket: int, seed: int) -> None:
    """Capture exchanges as one graph, replay it with the inputs of each round, and check what it delivered.

    A round changes payload, ids and weights in place, poisons memory and outputs, and replays the graph twice, one
    replay behind the other.

    Args:
        world: the group; its payload must be on.
        rounds: what the sources send in each exchange, round by round: the same tokens and buckets in all rounds.
        bucket: of the exchanges whose load names none.
        seed: of the payload, which differs from exchange to exchange.

    Raises:
        MismatchError: the first difference, with notes that name its exchange and round.
    """
    buckets = [load.bucket or bucket for load in rounds[0]]
    arrays = [on_ranks(world, payload.draw(world, load, seed)) for load in rounds[0]]
    with world.capture() as graph:
        exchanges = [enqueue(world, sent, own) for sent, own in zip(arrays, buckets, strict=True)]
    for number, loads in enumerate(rounds):
        world.poison(max(buckets, default=bucket))
        for index, (exchange, load) in enumerate(zip(exchanges, loads, strict=True)):
            change(exchange, payload.draw(world, load, seed + number * len(loads) + index))
        for _ in range(_REPLAYS):
            graph.replay()
        world.run()
        check(world, exchanges)


def on_ranks(world: Buffers, sent: Sequence[Sent]) -> list[Sent]:
    """The same arrays in the memory of the source ranks, where a graph reads them at each replay."""
    return [
        replace(one, **{name: world.empty(source.rank, array.shape, array.dtype) for name, array in _arrays(one)})
        for source, one in zip(world.sources, sent, strict=True)
    ]


def change(exchange: Exchange, sent: Sequence[Sent]) -> None:
    """Give a captured exchange other inputs of the same shapes, and poison what it collects."""
    for captured, fresh in zip(exchange.sent, sent, strict=True):
        for name, array in _arrays(fresh):
            getattr(captured, name)[...] = array
    for collected in exchange.collected:
        collected.view(np.uint8)[...] = 0xFF


def _arrays(sent: Sent) -> list[tuple[str, NDArray[Any]]]:
    return [(field.name, array) for field in fields(sent) if (array := getattr(sent, field.name)) is not None]
