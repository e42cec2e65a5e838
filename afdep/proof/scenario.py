"""What a hunt exchanges, and what each of its seeds draws. Draws are independent: to change one leaves the others."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from afdep import routing
from afdep.arms import Arm
from afdep.build import Fiber
from afdep.layout import Layout
from afdep.proof import giving_up
from afdep.routing import Load
from afdep.tree import root

_ROUTINGS = ("random", "skew", "spread", "all-to-one")
_ZIPF_EXPONENT = 1.0
_CONTROL_SHARE = 0.25
_ROUNDS = 2
_LAYOUT, _ARM, _GRAPH, _LOAD, _SECOND, _ABORT = range(6)
_SECOND_LOADS = 2**64
"""Added to a seed where it draws what the second Buffers exchange."""


@dataclass(frozen=True)
class Hunt:
    """What a hunt exchanges. Each seed draws the schedule, the routes, the tokens of each source and the buckets.

    Args:
        arm: the arm hunted.
        layouts: one is drawn a seed.
        hidden, dtype, experts_per_rank, top_k, capacity, transport_sms: the shape.
        most_tokens: of a source in one exchange.
        exchanges: how many run free, one behind the other.
        graphs: share of the seeds that replay them as a graph.
        buffers: share of the other seeds that have two Buffers a rank, whose exchanges are in flight together.
        aborts: share of the seeds with one Buffer a rank in which a rank gives up.
        controls: names of controls that a seed may set beside those of the arm.
        fiber: as in World.
        library: a native library, by default the one of this tree.
    """

    arm: str
    layouts: tuple[str, ...]
    hidden: int
    dtype: str
    experts_per_rank: int
    top_k: int
    capacity: int
    most_tokens: int
    transport_sms: int
    exchanges: int
    graphs: float
    buffers: float
    aborts: float
    controls: tuple[str, ...]
    fiber: Fiber
    library: Path | None = None

    @classmethod
    def small(cls, arm: str, **changes: Any) -> "Hunt":
        """The hunt of `conf/hunt/small.yaml`, with some of its fields changed."""
        return replace(_small(), arm=arm, **changes)


@dataclass(frozen=True)
class Second:
    """The second Buffers of a seed.

    Args:
        hidden, top_k, capacity: where their shape differs from that of the first.
        loads: their exchanges.
        order: whose call comes next, 0 or 1: a dispatch and a combine in turn.
    """

    hidden: int
    top_k: int
    capacity: int
    loads: tuple[Load, ...]
    order: tuple[int, ...]


@dataclass(frozen=True)
class Scenario:
    """What one seed exchanges.

    Args:
        layout: of the group.
        arm: with the controls that were drawn.
        rounds: the exchanges, one round for each time that the inputs change; replayed, rounds differ in ids alone.
        replayed: whether the exchanges are replayed as a graph.
        second: Buffers beside those of the rounds, or None.
        abort: how a rank gives up, or None.
    """

    layout: Layout
    arm: Arm
    rounds: tuple[tuple[Load, ...], ...]
    replayed: bool
    second: Second | None
    abort: giving_up.Abort | None = None

    def __str__(self) -> str:
        way = ", replayed" if self.replayed else ", two Buffers" if self.second else ""
        return f"{self.layout} {self.arm}{way}{f', {self.abort}' if self.abort else ''}"


@cache
def _small() -> Hunt:
    import yaml  # as in afdep.machine

    fields = yaml.safe_load((root() / "conf" / "hunt" / "small.yaml").read_text(encoding="utf-8"))
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Hunt(**{"arm": "afdep", **fields, **lists})


def draw(hunt: Hunt, seed: int) -> Scenario:
    """What a seed exchanges."""
    layout = Layout.parse(hunt.layouts[int(_generator(seed, _LAYOUT).integers(len(hunt.layouts)))])
    replayed = bool(_generator(seed, _GRAPH).random() < hunt.graphs)
    rounds = range(_ROUNDS if replayed else 1)
    exchanges = range(hunt.exchanges)
    loads = tuple(tuple(_load(hunt, layout, seed, index, number) for index in exchanges) for number in rounds)
    second = None if replayed else _second(hunt, layout, seed)
    abort = None if second else _abort(hunt, layout, seed, loads[0], replayed)
    return Scenario(layout, _arm(hunt, seed), loads, replayed, second, abort)


def _abort(hunt: Hunt, layout: Layout, seed: int, loads: tuple[Load, ...], replayed: bool) -> giving_up.Abort | None:
    generator = _generator(seed, _ABORT)
    return giving_up.draw(generator, layout, loads, replayed) if generator.random() < hunt.aborts else None


def _second(hunt: Hunt, layout: Layout, seed: int) -> Second | None:
    generator = _generator(seed, _SECOND)
    if generator.random() >= hunt.buffers:
        return None
    hidden, top_k = hunt.hidden * int(generator.integers(1, 3)), int(generator.integers(1, hunt.top_k + 1))
    capacity = int(generator.choice([hunt.capacity, _half(hunt.capacity), min(5, hunt.capacity)]))
    other = replace(hunt, hidden=hidden, top_k=top_k, capacity=capacity)
    loads = tuple(_load(other, layout, seed + _SECOND_LOADS, index, 0) for index in range(hunt.exchanges))
    order = generator.permutation([0, 1] * (2 * hunt.exchanges))
    return Second(hidden, top_k, capacity, loads, tuple(int(index) for index in order))


def _generator(seed: int, *concern: int) -> np.random.Generator:
    return np.random.default_rng([seed, *concern])


def _arm(hunt: Hunt, seed: int) -> Arm:
    arm = Arm.parse(hunt.arm)
    drawn = zip(hunt.controls, _generator(seed, _ARM).random(len(hunt.controls)), strict=True)
    switches = dict(arm.switches) | {name: 1 for name, share in drawn if share < _CONTROL_SHARE}
    return arm if arm.protocol == "m2n" or not hunt.controls else Arm.parse(_name(switches))


def _name(switches: dict[str, int]) -> str:
    texts = ",".join(f"{name}={value}" for name, value in switches.items())
    return f"afdep[{texts}]" if texts else "afdep"


def _load(hunt: Hunt, layout: Layout, seed: int, index: int, number: int) -> Load:
    """Exchange `index`: its bucket and tokens are those of every round, its routes those of round `number`."""
    generator = _generator(seed, _LOAD, index)
    bucket = int(generator.choice([hunt.capacity, _half(hunt.capacity), min(3, hunt.capacity)]))
    tokens = [
        min(hunt.most_tokens, int(generator.choice([0, 1, bucket // 2, bucket, bucket])))
        for _ in layout.attention_rank_ids
    ]
    routes = [
        _ids(hunt, layout, count, _generator(seed, _LOAD, index, number, source)) for source, count in enumerate(tokens)
    ]
    return Load(routes, bucket)


def _half(capacity: int) -> int:
    return max(1, capacity // 2)


def _ids(hunt: Hunt, layout: Layout, tokens: int, generator: np.random.Generator) -> routing.Ids:
    kind = _ROUTINGS[int(generator.integers(len(_ROUTINGS)))]
    return routing.make(
        kind,
        tokens,
        hunt.experts_per_rank * layout.ffn_ranks,
        hunt.top_k,
        int(generator.integers(2**31)),
        zipf_exponent=_ZIPF_EXPONENT if kind == "skew" else None,
        num_ffn_ranks=layout.ffn_ranks if kind in ("spread", "all-to-one") else None,
    )
