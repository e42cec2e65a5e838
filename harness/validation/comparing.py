"""Every element that an exchange delivered, compared with the reference bit for bit, and counted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep import proof
from afdep.proof import checks
from afdep.reference import Sent
from afdep.shapes import ExchangeShape


@dataclass(frozen=True)
class Delivered:
    """What an exchange brought.

    Args:
        collected: BF16 [T or more, H] by source; rows past its tokens must be zeros.
        received: by FFN rank, as `afdep.proof.checks.ReceivedRows` says, or nothing where the next exchange has
            overwritten it.
    """

    collected: Sequence[NDArray[Any]]
    received: Sequence[Any]


def compare(shape: ExchangeShape, sent: Sequence[Sent], delivered: Delivered) -> int:
    """Compare what every rank was given.

    Returns:
        How many elements were compared: of rows, and words of weights and scales.

    Raises:
        MismatchError: the first difference.
    """
    sources = zip(shape.layout.attention_rank_ids, proof.expected(shape, sent), delivered.collected, strict=True)
    elements = 0
    for rank, wanted, found in sources:
        elements += compare_collected(rank, wanted, found)
    for rank, rows in zip(shape.layout.ffn_rank_ids, delivered.received, strict=bool(delivered.received)):
        elements += compare_received(shape, sent, rank, rows)
    return elements


def compare_collected(rank: int, wanted: NDArray[Any], found: NDArray[Any]) -> int:
    """Compare the result of a source; see `compare`."""
    padded = np.zeros((max(len(wanted), len(found)), wanted.shape[1]), wanted.dtype)
    padded[: len(wanted)] = wanted
    checks.check_collected(found, padded, rank=rank)
    return int(found.size)


def compare_received(shape: ExchangeShape, sent: Sequence[Sent], rank: int, rows: Any) -> int:
    """Compare every row of an FFN rank; see `compare`."""
    checks.check_received(rows, sent, rank=rank, num_ffn_ranks=shape.layout.ffn_ranks, num_experts=shape.num_experts)
    count = int(rows.expert_offsets[-1])
    words = 0 if rows.scales is None else rows.scales.shape[1]
    return count * (shape.hidden + 1 + words)


def turn_a_bit(delivered: Delivered, where: str) -> Delivered:
    """The same, with the lowest bit of one element of the last row turned on the first rank that has a row."""
    if where == "collected":
        arrays = list(delivered.collected)
        index = next(number for number, array in enumerate(arrays) if len(array))
        arrays[index] = with_a_bit_turned(arrays[index])
        return replace(delivered, collected=arrays)
    rows = list(delivered.received)
    index = next(number for number, one in enumerate(rows) if one.expert_offsets[-1])
    rows[index] = replace(rows[index], x=with_a_bit_turned(rows[index].x[: rows[index].expert_offsets[-1]]))
    return replace(delivered, received=rows)


def with_a_bit_turned(rows: NDArray[Any]) -> NDArray[Any]:
    """A copy of rows, at least one, with the lowest bit of an element of the last one turned."""
    turned = np.array(rows)
    turned.view(f"u{rows.dtype.itemsize}")[-1, -1] ^= 1
    return turned
