"""Figures that no machine can give: faster than two hops of its link, or than the link carries what was sent."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.ranks import contract
from harness.ranks.cells import Floor, Row

_HOPS = 2
"""A row goes to an FFN rank, and its reply comes back."""


def impossible(floor: Floor | None, least_bytes: int, latency_us: float) -> str | None:
    """Why no exchange of a cell takes so little, or None.

    Args:
        floor: of the machine.
        least_bytes: that the busiest link carries one way in the lightest of the timed exchanges.
        latency_us: of the cell.
    """
    assert floor is not None
    hops_us = _HOPS * floor.one_hop_ns / 1e3
    if latency_us < hops_us:
        return f"impossible: {latency_us:.3f} us for a round trip, whose {_HOPS} hops take {hops_us:.3f} us"
    rate = least_bytes / (latency_us * 1e3)
    if rate > floor.link_gb_per_s:
        return f"impossible: {rate:.0f} GB/s one way over a link of {floor.link_gb_per_s:.0f} GB/s"
    return None


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
