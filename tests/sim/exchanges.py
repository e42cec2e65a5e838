"""Small worlds, their routes and a round through their public calls, for the simulator's tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from afdep import Layout, Machine, Received, World, reference, routing
from afdep.reference import Sent

ARMS = ("m2n", "afdep")
EXPERTS_PER_RANK = 6
MACHINE = "h100-nvlink"

Array = np.ndarray[Any, Any]


@cache
def changed_machine(**values: float) -> Machine:
    """The H100 with some constants changed."""
    machine = Machine.load(MACHINE)
    table = tuple(replace(constant, value=values.get(constant.name, constant.value)) for constant in machine.table)
    return Machine("changed", table)


SMALL_SMS = changed_machine(sm_count=4, shared_bytes_per_cta=2560, shared_bytes_per_sm=6144)
"""A machine whose slots of shared memory are few: they are used again with few tokens."""


def make_world(layout: str = "2A2F", **changes: Any) -> World:
    """A World of a shape so small that an exchange takes milliseconds, on so few SMs that warps take several tokens."""
    experts = EXPERTS_PER_RANK * Layout.parse(layout).ffn_ranks
    shape = {"hidden": 64, "num_experts": experts, "top_k": 4, "capacity": 16, "transport_sms": 3}
    return World(layout, **({"machine": changed_machine(sm_count=8)} | shape | changes))


def make_routes(world: World, tokens: Sequence[int], kind: str = "random", seed: int = 0) -> list[Array]:
    """The ids of every source."""
    shape = world.shape
    options: dict[str, Any] = {"zipf_exponent": 1.0} if kind == "skew" else {}
    if kind in ("spread", "all-to-one"):
        options["num_ffn_ranks"] = world.layout.ffn_ranks
    return [
        routing.make(kind, count, shape.num_experts, shape.top_k, seed * 100 + source, **options)
        for source, count in enumerate(tokens)
    ]


def full(world: World) -> list[int]:
    """As many tokens on every source as the capacity holds."""
    return [world.shape.capacity] * world.layout.attention_ranks


@dataclass(frozen=True)
class Round:
    """One exchange through the public calls: what was sent, received and collected."""

    sent: list[Sent]
    received: list[Received]
    collected: list[Array]


def send(world: World, topk_idx: Sequence[Array], bucket: int | None = None, seed: int = 0) -> list[Sent]:
    """Dispatch fresh payload and weights on every source."""
    hidden = world.shape.hidden
    weights = np.random.default_rng(seed)
    sent = [
        Sent(reference.payload(len(ids), hidden, seed + 1 + index), ids, weights.random(ids.shape, np.float32))
        for index, ids in enumerate(topk_idx)
    ]
    for source, one in zip(world.sources, sent, strict=True):
        source.source_dispatch(one.x, one.topk_idx, one.topk_weights, bucket=bucket)
    return sent


def answer(world: World, received: Sequence[Received], expert: Callable[[Array, Array], Array]) -> None:
    """Reply on every FFN rank with what `expert` makes of each row and its global expert id."""
    local = np.arange(world.shape.experts_per_rank)
    for ffn, rows in zip(world.ffns, received, strict=True):
        counts = np.diff(rows.expert_offsets)
        ids = np.repeat(local + ffn.rank * world.shape.experts_per_rank, counts)
        ffn.ffn_reply(rows, expert(rows.x[: len(ids)], ids))


def exchange(
    world: World,
    topk_idx: Sequence[Array],
    expert: Callable[[Array, Array], Array] = reference.apply_experts,
    seed: int = 0,
) -> Round:
    """Dispatch, receive, run, compute in numpy, reply, collect, run."""
    sent = send(world, topk_idx, seed=seed)
    received = [ffn.ffn_receive() for ffn in world.ffns]
    world.run()
    answer(world, received, expert)
    collected = [source.source_collect() for source in world.sources]
    world.run()
    return Round(sent, received, collected)
