"""Figures that no machine can give: faster than two hops of its link, or than the link carries what was sent."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from afdep.dtypes import dispatch_dtype
from afdep.layout import Layout
from harness.screen_config import Floor, Row

_HOPS = 2
"""A row goes to an FFN rank, and its reply comes back."""


def impossible(floor: Floor, row: Row, loads: Sequence[Any], latency_us: float) -> str | None:
    """Why no exchange of a cell takes so little, or None.

    Args:
        floor: of the machine.
        row: of the cell.
        loads: the routes of the timed exchanges; the lightest of them counts.
        latency_us: of the cell.
    """
    hops_us = _HOPS * floor.one_hop_ns / 1e3
    if latency_us < hops_us:
        return f"impossible: {latency_us:.3f} us for a round trip, whose {_HOPS} hops take {hops_us:.3f} us"
    carried = min(_bytes_one_way(row, load) for load in loads)
    rate = carried / (latency_us * 1e3)
    if rate > floor.link_gb_per_s:
        return f"impossible: {rate:.0f} GB/s one way over a link of {floor.link_gb_per_s:.0f} GB/s"
    return None


def _bytes_one_way(row: Row, load: Any) -> int:
    """Row bytes that the busiest link carries one way: a token goes once to each FFN rank that it names."""
    layout, dtype = Layout.parse(row.layout), dispatch_dtype(row.dtype)
    experts = row.experts // layout.ffn_ranks
    rows = np.array([_rows_by_ffn_rank(np.asarray(ids), experts, layout.ffn_ranks) for ids in load.topk_idx])
    busiest = max(rows.sum(axis=0).max(initial=0), rows.sum(axis=1).max(initial=0))
    return int(busiest) * (dtype.row_bytes(row.hidden) + dtype.scale_bytes(row.hidden))


def _rows_by_ffn_rank(ids: Any, experts_per_rank: int, ffn_ranks: int) -> list[int]:
    owner = np.where(ids < 0, -1, ids // experts_per_rank)
    return [int((owner == rank).any(axis=1).sum()) for rank in range(ffn_ranks)]
