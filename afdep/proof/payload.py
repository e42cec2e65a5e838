"""Known payload of an exchange, and what each source collects of it through the expert-dependent transform."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from afdep import fp8, reference
from afdep.reference import Sent
from afdep.routing import Load
from afdep.shapes import ExchangeShape


class Shaped(Protocol):
    """A Buffer of either target, or a World: what has the shape of its exchanges."""

    @property
    def shape(self) -> ExchangeShape:
        """Of the exchanges."""


def draw(group: Shaped, load: Load, seed: int) -> list[Sent]:
    """What each source of a group sends of a load: payload, routes and weights, by the seed."""
    generator = np.random.default_rng(seed)
    return [
        _sent(group.shape, ids, seed * group.shape.layout.num_ranks + source, generator.random(ids.shape, np.float32))
        for source, ids in enumerate(load.topk_idx)
    ]


def expected(shape: ExchangeShape, sent: Sequence[Sent]) -> list[reference.Array]:
    """What each source collects of `sent` through the expert-dependent transform."""
    values = [one if one.scales is None else replace(one, x=fp8.decode(one.x, one.scales, shape.dtype)) for one in sent]
    return reference.exchange(values, num_ffn_ranks=shape.layout.ffn_ranks, num_experts=shape.num_experts)


def _sent(shape: ExchangeShape, ids: NDArray[Any], seed: int, weights: NDArray[np.float32]) -> Sent:
    if shape.dtype.groups_per_word == 0:
        return Sent(reference.payload(len(ids), shape.hidden, seed), ids, weights)
    x, scales = fp8.payload(len(ids), shape.hidden, shape.dtype, seed)
    return Sent(x, ids, weights, scales)
