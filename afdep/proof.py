"""Exchanges of known payload through an expert-dependent transform, compared with the reference byte by byte."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from afdep import checks, reference
from afdep.buffer import Received
from afdep.reference import Sent
from afdep.timing import Load

if TYPE_CHECKING:
    from afdep.world import World


@dataclass(frozen=True)
class _Exchange:
    """One exchange: what was sent, and what will have arrived, by source and by FFN rank."""

    sent: list[Sent]
    received: list[Received]
    collected: list[NDArray[Any]]


def prove(world: "World", loads: Sequence[Load], bucket: int, seed: int) -> None:
    """Run the exchanges free, one behind the other, over poisoned memory, and check them.

    What the FFN ranks received is checked in the last exchange: each overwrites the one before.

    Args:
        world: the group; its payload must be on.
        loads: what the sources send in each exchange.
        bucket: of the exchanges whose load names none.
        seed: of the payload, which differs from exchange to exchange.

    Raises:
        MismatchError: the first difference.
    """
    buckets = [load.bucket or bucket for load in loads]
    world.poison(max(buckets, default=bucket))
    exchanges = [
        _enqueue(world, _sent(world, load, seed + index), own_bucket)
        for index, (load, own_bucket) in enumerate(zip(loads, buckets, strict=True))
    ]
    world.run()
    for exchange in exchanges:
        _check_collected(world, exchange)
    if exchanges:
        _check_received(world, exchanges[-1])


def _sent(world: "World", load: Load, seed: int) -> list[Sent]:
    generator = np.random.default_rng(seed)
    return [
        Sent(
            reference.payload(len(ids), world.shape.hidden, seed * world.layout.num_ranks + source),
            ids,
            generator.random(ids.shape, np.float32),
        )
        for source, ids in enumerate(load.topk_idx)
    ]


def _enqueue(world: "World", sent: list[Sent], bucket: int) -> _Exchange:
    for source, one in zip(world.sources, sent, strict=True):
        source.source_dispatch(one.x, one.topk_idx, one.topk_weights, bucket=bucket)
    received = [ffn.ffn_receive(bucket=bucket) for ffn in world.ffns]
    for ffn, rows in zip(world.ffns, received, strict=True):
        ffn.ffn_reply(rows, world.expert_transform(ffn.rank))
    return _Exchange(sent, received, [source.source_collect() for source in world.sources])


def _check_collected(world: "World", exchange: _Exchange) -> None:
    expected = reference.exchange(
        exchange.sent, num_ffn_ranks=world.layout.ffn_ranks, num_experts=world.shape.num_experts
    )
    for rank, found, wanted in zip(world.layout.attention_rank_ids, exchange.collected, expected, strict=True):
        checks.check_collected(found, wanted, rank=rank)


def _check_received(world: "World", exchange: _Exchange) -> None:
    for rank, rows in zip(world.layout.ffn_rank_ids, exchange.received, strict=True):
        checks.check_received(
            rows,
            exchange.sent,
            rank=rank,
            num_ffn_ranks=world.layout.ffn_ranks,
            num_experts=world.shape.num_experts,
            expert_alignment=world.shape.expert_alignment,
        )
