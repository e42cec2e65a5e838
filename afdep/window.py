"""Sizes of the registered window: records, regions, and the bytes each rank registers.

Nothing here validates: sizes of configurations that no Buffer would take are still computed, in Python's unbounded
integers. MB in the figures is 1e6 bytes.
"""

from afdep.dtypes import dispatch_dtype
from afdep.layout import Layout

RECORD_ALIGNMENT = 32
"""Bytes; the scale and metadata sections of a record are padded to a multiple of it, the hidden row is not."""


def _padded(num_bytes: int) -> int:
    return -(-num_bytes // RECORD_ALIGNMENT) * RECORD_ALIGNMENT


def dispatch_record_bytes(hidden: int, dtype: str, top_k: int) -> int:
    """Bytes of one token in a dispatch inbox.

    Hidden row, scale words, then metadata: K int32 ids, K fp32 weights, one int32 source id, K int32 list positions.

    Raises:
        ShapeError: an unknown dtype.
    """
    payload = dispatch_dtype(dtype)
    metadata = 4 * (3 * top_k + 1)
    return payload.row_bytes(hidden) + _padded(payload.scale_bytes(hidden)) + _padded(metadata)


def combine_record_bytes(hidden: int, top_k: int) -> int:
    """Bytes of one token in a combine inbox: a BF16 row, then K ints and K fp32 weights."""
    return 2 * hidden + _padded(8 * top_k)


def uses_rank_layout(layout: Layout, top_k: int) -> bool:
    """Whether a combine inbox has one region a replying rank; otherwise it has one a top-k lane."""
    return layout.num_ranks <= top_k


def dispatch_regions(layout: Layout, union: bool) -> int:
    """Regions of `capacity` records in a dispatch inbox: one a rank (union), or one a source."""
    return layout.num_ranks if union else layout.attention_ranks


def combine_regions(layout: Layout, top_k: int, union: bool) -> int:
    """Regions of `capacity` records in a combine inbox.

    In the rank layout one a rank (union) or one an FFN rank; beyond it K in both, one a lane.
    """
    if not uses_rank_layout(layout, top_k):
        return top_k
    return layout.num_ranks if union else layout.ffn_ranks


def registered_bytes(layout: Layout, hidden: int, dtype: str, top_k: int, capacity: int, union: bool) -> int:
    """Bytes of the transport buffer that every rank registers: the larger of its two inboxes, which share it.

    A symmetric window has one size, so both roles register the maximum. Workspace words are not counted.

    Args:
        layout: the ranks.
        hidden: elements of a row.
        dtype: the dispatch dtype; replies are BF16.
        top_k: routes of a token.
        capacity: records of a region.
        union: True for regions for every rank, False for role-sized regions.

    Raises:
        ShapeError: an unknown dtype.
    """
    dispatch = dispatch_regions(layout, union) * dispatch_record_bytes(hidden, dtype, top_k)
    combine = combine_regions(layout, top_k, union) * combine_record_bytes(hidden, top_k)
    return max(dispatch, combine) * capacity
