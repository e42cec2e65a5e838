"""How a rank gives up in a hunt: what a seed draws of it. `afdep.proof.aborts` plays it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from afdep.failure_codes import Failure
from afdep.layout import Layout
from afdep.routing import Load

_MOST_WAITS = 30
_LONGEST_US = 3000.0
_LATE_US = 300.0


@dataclass(frozen=True)
class BadRoute:
    """A source sends a token to no expert, or to one twice.

    Args:
        rank: the source.
        exchange: the first that has the route, from 0.
        token, lane: of the route.
        twice: whether it names the expert of lane 0, or one that does not exist.
    """

    rank: int
    exchange: int
    token: int
    lane: int
    twice: bool

    @property
    def failure(self) -> Failure:
        return Failure.duplicate_expert if self.twice else Failure.expert_out_of_range

    def __str__(self) -> str:
        return f"a bad route of rank {self.rank} in exchange {self.exchange + 1}"


@dataclass(frozen=True)
class Refusal:
    """A rank's host refuses a call, says so behind what it has enqueued, and enqueues no more.

    Args:
        rank: of any role.
        exchange: whose call it is, from 0.
        half: 0 where that is the dispatch, 1 where it is the combine.
    """

    rank: int
    exchange: int
    half: int
    failure = Failure.refused

    def __str__(self) -> str:
        return f"rank {self.rank} refuses {('dispatch', 'combine')[self.half]} {self.exchange + 1}"


@dataclass(frozen=True)
class RefusalBeside:
    """A rank's host refuses while its exchanges run, and these go on, as those of a graph do.

    Args:
        rank: of any role.
        after_us: when it tells its peers.
    """

    rank: int
    after_us: float
    failure = Failure.refused

    def __str__(self) -> str:
        return f"rank {self.rank} refuses after {self.after_us:.0f} us"


@dataclass(frozen=True)
class TimeOut:
    """A wait of a rank times out, and with it all that it waits for.

    Args:
        rank: of any role.
        waits: how many of its waits block before.
        after_us: how long the wait lasts.
    """

    rank: int
    waits: int
    after_us: float
    failure = Failure.timed_out

    def __str__(self) -> str:
        return f"rank {self.rank} times out in wait {self.waits + 1}"


Way = BadRoute | Refusal | RefusalBeside | TimeOut


@dataclass(frozen=True)
class Late:
    """A rank begins an exchange late, by so much of simulated time."""

    rank: int
    exchange: int
    delay_us: float


@dataclass(frozen=True)
class Abort:
    """One rank gives up, and another may be late."""

    way: Way
    late: Late | None

    def __str__(self) -> str:
        return str(self.way)


def draw(generator: np.random.Generator, layout: Layout, loads: Sequence[Load], replayed: bool) -> Abort:
    """How a rank gives up on exchanges of these loads; no host of a replayed graph stops."""
    kind = generator.integers(8)
    rank, exchange = int(generator.integers(layout.num_ranks)), int(generator.integers(len(loads)))
    late = None
    if generator.random() < 0.5:
        late_us = float(generator.random() * _LATE_US)
        late = Late(int(generator.integers(layout.num_ranks)), int(generator.integers(len(loads))), late_us)
    if kind == 0 and (route := _bad_route(generator, layout, loads, exchange)) is not None:
        return Abort(route, late)
    if kind == 1 and not replayed:
        return Abort(Refusal(rank, exchange, int(generator.integers(2))), late)
    if kind <= 2:
        return Abort(RefusalBeside(rank, float(generator.random() ** 3 * _LONGEST_US)), late)
    waits = int(generator.random() ** 2 * _MOST_WAITS)
    return Abort(TimeOut(rank, waits, float(generator.random() ** 4 * _LATE_US)), late)


def _bad_route(generator: np.random.Generator, layout: Layout, loads: Sequence[Load], exchange: int) -> BadRoute | None:
    """A route of some source that has tokens in the exchange, or None."""
    counts = [len(ids) for ids in loads[exchange].topk_idx]
    source = int(generator.integers(len(counts)))
    if counts[source] == 0:
        return None
    ids = loads[exchange].topk_idx[source]
    token, lane = int(generator.integers(counts[source])), int(generator.integers(ids.shape[1]))
    twice = lane > 0 and bool(ids[token, 0] >= 0) and bool(generator.integers(2))
    return BadRoute(layout.ffn_ranks + source, exchange, token, lane, twice)
