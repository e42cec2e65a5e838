"""The exact result of an exchange, in numpy, and the checks against it.

Numbers: at an FFN rank the local rows of a token are summed in FP32 in ascending lane order and rounded once to BF16;
at the source the replies are summed in FP32 in ascending order of the token's last lane per FFN rank, and rounded once.
Rounding is to nearest even. A single row or reply is copied bit for bit, and a token without a route is zero. A sum
starts with its first term, not with a zero: negative zeros alone sum to negative zero.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afdep.elements import BF16 as BF16
from afdep.elements import to_bf16, to_float32
from afdep.routing import NO_ROUTE, Ids

Array = NDArray[np.generic]
Expert = Callable[[Array, Ids], Array]
"""What an FFN rank computes: rows [n, H] and the global expert id of each [n], to BF16 rows [n, H]."""

CANCELLING = np.float32(2**18)

_BLOCK_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class Sent:
    """What one source passes to `source_dispatch`.

    Args:
        x: rows [T, H].
        topk_idx: int32 or int64 [T, K]; valid ids, distinct within a token, or -1.
        topk_weights: fp32 [T, K], or None.
        scales: scale words [T, words], or None.
    """

    x: Array
    topk_idx: NDArray[np.int32] | Ids
    topk_weights: NDArray[np.float32] | None = None
    scales: Array | None = None


def payload(tokens: int, hidden: int, seed: int) -> Array:
    """BF16 [tokens, hidden] of n/32 with n uniform in -128..127: sums of 32 scaled rows are exact in FP32."""
    rng = np.random.Generator(np.random.PCG64(seed))
    integers = rng.integers(-128, 128, size=(tokens, hidden), dtype=np.int16)
    return to_bf16(integers.astype(np.float32) / 32)


def expert_scale(experts: Ids) -> NDArray[np.float32]:
    """The factor of each global expert id: a power of two from 1/4 to 4, negative in every second run of five ids."""
    magnitude = np.ldexp(np.float32(1), experts % 5 - 2)
    return np.where(experts // 5 % 2 == 1, -magnitude, magnitude).astype(np.float32)


def apply_experts(x: Array, experts: Ids) -> Array:
    """Rows times `expert_scale` of their expert: BF16 [n, H], exact unless it leaves the range of BF16.

    Args:
        x: BF16 or FP8 rows [n, H].
        experts: the global expert id of each row [n].
    """
    return to_bf16(to_float32(x) * expert_scale(experts)[:, None])


def cancelling_experts(x: Array, experts: Ids) -> Array:
    """Rows whose FP32 sum shows the order it was taken in, which that of `apply_experts` never does.

    By (expert + column) mod 3 an element is CANCELLING, its negative, or that of `apply_experts`: a small term added
    while a large one is in the accumulator is rounded to the large one's grid, and the large ones then cancel.

    Args:
        x: BF16 or FP8 rows [n, H].
        experts: the global expert id of each row [n].
    """
    kind = (experts[:, None] + np.arange(x.shape[1])) % 3
    ordinary = to_float32(apply_experts(x, experts))
    return to_bf16(np.where(kind == 0, CANCELLING, np.where(kind == 1, -CANCELLING, ordinary)))


def combine(
    x: Array,
    topk_idx: NDArray[np.int32] | Ids,
    *,
    num_ffn_ranks: int,
    num_experts: int,
    expert: Expert = apply_experts,
    num_tokens: int | None = None,
) -> Array:
    """What `source_collect` returns to a source.

    Args:
        x: the source's rows [T, H].
        topk_idx: its ids [T, K]; valid ids, distinct within a token, or -1.
        num_ffn_ranks: F.
        num_experts: E; expert e lives on FFN rank e // (E / F).
        expert: what the FFN ranks compute.
        num_tokens: what a `num_tokens` word on the device says: later rows are sent nowhere and come back as zeros.

    Returns:
        BF16 [T, H].
    """
    if num_tokens is not None:
        topk_idx = np.where(np.arange(len(x))[:, None] < num_tokens, topk_idx, NO_ROUTE)
    routes = _Routes.of(topk_idx.astype(np.int64), num_experts // num_ffn_ranks)
    tokens, hidden = x.shape
    collected = np.zeros((tokens, hidden), dtype=BF16)
    block = max(1, _BLOCK_ELEMENTS // hidden)
    for start in range(0, tokens, block):
        part = slice(start, start + block)
        collected[part] = _combine_block(x[part], _Routes(routes.experts[part], routes.ends_reply[part]), expert)
    return collected


def exchange(
    sent: Sequence[Sent], *, num_ffn_ranks: int, num_experts: int, expert: Expert = apply_experts
) -> list[Array]:
    """What every source collects, by source index: `combine` of each."""
    return [combine(s.x, s.topk_idx, num_ffn_ranks=num_ffn_ranks, num_experts=num_experts, expert=expert) for s in sent]


@dataclass(frozen=True)
class _Routes:
    """The routes of each token in the order they are summed, missing ones last.

    Args:
        experts: [T, K] ids.
        ends_reply: [T, K], True at the last route of each FFN rank.
    """

    experts: Ids
    ends_reply: NDArray[np.bool_]

    @classmethod
    def of(cls, ids: Ids, experts_per_rank: int) -> "_Routes":
        top_k = ids.shape[1]
        lanes = np.arange(top_k)
        ffn_rank = np.where(ids < 0, -1, ids // experts_per_rank)
        same_rank = ffn_rank[:, :, None] == ffn_rank[:, None, :]
        last_lane = np.where(same_rank, lanes, 0).max(axis=2, initial=0)
        order = np.argsort(np.where(ids < 0, top_k, last_lane) * top_k + lanes, axis=1)
        experts = np.take_along_axis(ids, order, axis=1)
        in_order = np.take_along_axis(ffn_rank, order, axis=1)
        ends_reply = np.ones(ids.shape, dtype=bool)
        ends_reply[:, :-1] = in_order[:, :-1] != in_order[:, 1:]
        return cls(experts, ends_reply)


class _Sums:
    """One sum of rows a token, by the rules of this module."""

    def __init__(self, tokens: int, hidden: int):
        self._total = np.full((tokens, hidden), -0.0, dtype=np.float32)  # -0 + row is the row, whatever its sign
        self._latest = np.zeros((tokens, hidden), dtype=BF16)
        self._terms = np.zeros(tokens, dtype=np.int64)

    def add(self, tokens: Ids, rows: Array) -> None:
        self._total[tokens] += to_float32(rows)
        self._latest[tokens] = rows
        self._terms[tokens] += 1

    def take(self, tokens: Ids) -> Array:
        """The rounded sums of these tokens, which start anew."""
        rounded = to_bf16(self._total[tokens])
        copied = self._terms[tokens] <= 1
        rounded[copied] = self._latest[tokens[copied]]
        self._total[tokens] = -0.0
        self._terms[tokens] = 0
        return rounded


def _combine_block(x: Array, routes: _Routes, expert: Expert) -> Array:
    tokens, top_k = routes.experts.shape
    local, replies = _Sums(tokens, x.shape[1]), _Sums(tokens, x.shape[1])
    with np.errstate(invalid="ignore"):  # a NaN or opposite infinities in the payload are the payload's business
        for position in range(top_k):
            routed = np.flatnonzero(routes.experts[:, position] >= 0)
            local.add(routed, expert(x[routed], routes.experts[routed, position]))
            replied = routed[routes.ends_reply[routed, position]]
            replies.add(replied, local.take(replied))
        return replies.take(np.arange(tokens))
