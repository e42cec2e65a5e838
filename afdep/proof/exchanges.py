"""Exchanges of known payload through an expert-dependent transform, compared with the reference byte by byte."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from afdep.errors import MismatchError, ShapeError
from afdep.interface import Received
from afdep.proof import checks, payload
from afdep.reference import Sent
from afdep.routing import Load
from afdep.sim.buffers import Buffers


@dataclass(frozen=True)
class Exchange:
    """One exchange: what was sent, and what will have arrived, by source and by FFN rank."""

    sent: list[Sent]
    received: list[Received]
    collected: list[NDArray[Any]]


def prove(world: Buffers, loads: Sequence[Load], bucket: int, seed: int) -> None:
    """Run the exchanges free, one behind the other, over poisoned memory, and check them.

    What the FFN ranks received is checked in the last exchange: each overwrites the one before. A World of the mode
    `time` moves the rows here too.

    Args:
        world: the group.
        loads: what the sources send in each exchange, at least one.
        bucket: of the exchanges whose load names none.
        seed: of the payload, which differs from exchange to exchange.

    Raises:
        MismatchError: the first difference.
        ShapeError: no exchange.
        OrderError: inside a capture.
    """
    if not loads:
        raise ShapeError("exchanges", "1 or more", 0, "A proof of no exchange proves nothing.")
    buckets = [load.bucket or bucket for load in loads]
    with world.moving_payload():
        world.poison(max(buckets))
        exchanges = [
            enqueue(world, payload.draw(world, load, seed + index), own_bucket)
            for index, (load, own_bucket) in enumerate(zip(loads, buckets, strict=True))
        ]
        world.run()
    check(world, exchanges)


def check(world: Buffers, exchanges: Sequence[Exchange]) -> None:
    """Check what every exchange delivered, and what the FFN ranks received in the last one.

    Raises:
        MismatchError: the first difference, with a note that names its exchange.
    """
    for number, exchange in enumerate(exchanges, 1):
        try:
            _check_collected(world, exchange)
            if exchange is exchanges[-1]:
                _check_received(world, exchange)
        except MismatchError as error:
            error.add_note(f"in exchange {number} of {len(exchanges)}")
            raise


def enqueue(world: Buffers, sent: list[Sent], bucket: int) -> Exchange:
    """Enqueue an exchange, through the expert-dependent transform."""
    received = dispatch(world, sent, bucket)
    return Exchange(sent, received, combine(world, received))


def dispatch(world: Buffers, sent: Sequence[Sent], bucket: int) -> list[Received]:
    """Enqueue the first half of an exchange: what will have arrived, by FFN rank."""
    for source, one in zip(world.sources, sent, strict=True):
        x = one.x if one.scales is None else (one.x, one.scales)
        source.source_dispatch(x, one.topk_idx, one.topk_weights, bucket=bucket)
    return [ffn.ffn_receive(bucket=bucket) for ffn in world.ffns]


def combine(world: Buffers, received: Sequence[Received]) -> list[NDArray[Any]]:
    """Enqueue the second half of an exchange, through the expert-dependent transform: what is collected, by source."""
    for ffn, rows in zip(world.ffns, received, strict=True):
        ffn.ffn_reply(rows, world.expert_transform(ffn.rank))
    return [source.source_collect() for source in world.sources]


def _check_collected(world: Buffers, exchange: Exchange) -> None:
    results = payload.expected(world.shape, exchange.sent)
    for rank, found, wanted in zip(world.layout.attention_rank_ids, exchange.collected, results, strict=True):
        checks.check_collected(found, wanted, rank=rank)


def _check_received(world: Buffers, exchange: Exchange) -> None:
    for rank, rows in zip(world.layout.ffn_rank_ids, exchange.received, strict=True):
        checks.check_received(
            rows,
            exchange.sent,
            rank=rank,
            num_ffn_ranks=world.layout.ffn_ranks,
            num_experts=world.shape.num_experts,
            expert_alignment=world.shape.expert_alignment,
        )
