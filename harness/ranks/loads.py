"""What the sources of a cell send, drawn or recorded, and what the busiest link carries of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.ranks import contract
from harness.ranks.cells import Exchange, Row, Shape

_MAX_EXCHANGES, _MAX_SOURCES = 1024, 128
"""Bounds that keep the seeds of any two exchanges and sources apart."""


def make(exchange: Exchange, row: Row, tokens: int, num_exchanges: int, trace: Any = None) -> list[Any]:
    """An afdep.Load for each exchange; alike for every arm, pair and attempt of a cell, and other routes in each.

    Args:
        exchange: its top-k and seed.
        row: of the cell.
        tokens: of every source.
        num_exchanges: how many.
        trace: recorded ids, or None.
    """
    afdep = contract.modules().afdep
    layout = afdep.Layout.parse(row.layout)

    def ids(index: int, source: int) -> Any:
        if trace is not None:
            return trace.replay(index, source, tokens)
        return afdep.routing.make(
            row.routing,
            tokens,
            row.num_experts,
            exchange.top_k,
            (exchange.seed * _MAX_EXCHANGES + index) * _MAX_SOURCES + source,
            zipf_exponent=row.zipf_exponent,
            num_ffn_ranks=layout.ffn_ranks,
        )

    sources = range(layout.attention_ranks)
    return [afdep.Load([ids(index, source) for source in sources]) for index in range(num_exchanges)]


def random(shape: Shape, seeds: Sequence[int]) -> Any:
    """An afdep.Load of random ids, by source with a seed of its own."""
    afdep = contract.modules().afdep
    ids = (shape.tokens, shape.num_experts, shape.top_k)
    return afdep.Load([afdep.routing.make("random", *ids, seed) for seed in seeds])


def least_bytes(row: Row, loads: Sequence[Any]) -> int:
    """Row bytes that the busiest link carries one way in the lightest of these exchanges: a token goes once to each FFN
    rank that it names.
    """
    afdep = contract.modules().afdep
    layout = afdep.Layout.parse(row.layout)
    dtype = afdep.ExchangeShape(layout, row.hidden, row.num_experts, 1, 1, row.dtype).dtype
    experts = row.num_experts // layout.ffn_ranks
    row_bytes = int(dtype.row_bytes(row.hidden) + dtype.scale_bytes(row.hidden))
    return row_bytes * min(_busiest(load, experts, layout.ffn_ranks) for load in loads)


def _busiest(load: Any, experts_per_rank: int, ffn_ranks: int) -> int:
    rows = np.array([_rows_by_ffn_rank(np.asarray(ids), experts_per_rank, ffn_ranks) for ids in load.topk_idx])
    return int(max(rows.sum(axis=0).max(initial=0), rows.sum(axis=1).max(initial=0)))


def _rows_by_ffn_rank(ids: Any, experts_per_rank: int, ffn_ranks: int) -> list[int]:
    owner = np.where(ids < 0, -1, ids // experts_per_rank)
    return [int((owner == rank).any(axis=1).sum()) for rank in range(ffn_ranks)]
