"""Expert ids: what the sources send in an exchange, the generated routings of a screen, and the checks on ids.

Ids are an array [T, K]; -1 is a lane without a route. Within a token no expert stands twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afdep.errors import IdTypeError, RoutingError, ShapeError, choices

NO_ROUTE = -1

KINDS: tuple[str, ...] = ("random", "skew", "spread", "all-to-one")

_BLOCK_ELEMENTS = 1 << 21

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """What the sources send in one exchange.

    Args:
        topk_idx: expert ids [T, K] of each source, by source index.
        bucket: of this exchange, where it differs from the call's.
    """

    topk_idx: Sequence[NDArray[Any]]
    bucket: int | None = None


class InvalidId(NamedTuple):
    """The first route a kernel would refuse: an id out of range, or one that an earlier lane of the token has."""

    token: int
    lane: int
    id: int
    kind: Literal["range", "duplicate"]


def make(
    kind: str,
    tokens: int,
    num_experts: int,
    top_k: int,
    seed: int,
    *,
    zipf_exponent: float | None = None,
    num_ffn_ranks: int | None = None,
) -> Ids:
    """Generate the ids of one source; the same arguments give the same ids.

    Args:
        kind: "random" (uniform), "skew" (popularity 1/(e + 1)**zipf_exponent of expert e, for every source: popular
            experts share the first FFN rank, so that ranks are as uneven as experts), "spread" (lane k of token t goes
            to FFN rank (t + k) mod F, so with K >= F every rank is hit) or "all-to-one" (every lane goes to FFN rank 0;
            lanes beyond its experts are -1).
        tokens: T, 0 or more.
        num_experts: E.
        top_k: K; ids within a token are distinct, in the order drawn.
        seed: of PCG64.
        zipf_exponent: above 0; for "skew", and for it alone.
        num_ffn_ranks: F, a divisor of E; for "spread" and "all-to-one", and optional elsewhere.

    Returns:
        int64 [T, K].

    Raises:
        RoutingError: an unknown kind, a missing or needless argument, or more lanes than experts.
    """
    if kind not in KINDS:
        raise RoutingError(f"routing: expected a known kind, received {kind!r}.", choices(kind, KINDS))
    if min(tokens, top_k - 1, num_experts - 1) < 0:
        received = f"T = {tokens}, E = {num_experts}, K = {top_k}"
        raise RoutingError(
            f"routing {kind}: expected T >= 0, E >= 1 and K >= 1, received {received}.",
            "A source without tokens has T = 0; there is no exchange without experts or lanes.",
        )
    if (kind == "skew") != (zipf_exponent is not None):
        raise RoutingError(
            f"routing {kind}: expected zipf_exponent for skew alone, received {zipf_exponent}.",
            "Pass zipf_exponent=NUMBER with skew, and leave it out elsewhere.",
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    if kind in ("random", "skew"):
        _check_enough(kind, "experts", num_experts, top_k)
        return _distinct(rng, tokens, top_k, _log_popularity(num_experts, zipf_exponent))
    ffn_ranks, experts_per_rank = _split(kind, num_experts, num_ffn_ranks)
    if kind == "spread":
        return _spread(rng, tokens, top_k, ffn_ranks, experts_per_rank)
    return _all_to_one(rng, tokens, top_k, experts_per_rank)


def check_ids(ids: ArrayLike, tokens: int, top_k: int, num_experts: int) -> NDArray[np.int32] | Ids:
    """Check what the host can see of a call's ids: their type and shape. The range is the kernel's assertion.

    Args:
        ids: int32 or int64 [T, K]; an array, or a CPU tensor.
        tokens: T.
        top_k: K.
        num_experts: E, for the message.

    Returns:
        The ids as an array, not copied.

    Raises:
        IdTypeError: neither int32 nor int64.
        ShapeError: not [T, K].
    """
    array: NDArray[np.int32] | Ids = np.asarray(ids)
    if array.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise IdTypeError(str(array.dtype), num_experts)
    if array.shape != (tokens, top_k):
        next_step = "One row a token of x, one column a lane; a source without tokens passes shape (0, K)."
        raise ShapeError("topk_idx", f"shape {(tokens, top_k)}", array.shape, next_step)
    return array


def first_invalid(ids: NDArray[np.int32] | Ids, num_experts: int) -> InvalidId | None:
    """The first route, by token and then lane, that is out of range or repeats an id; None if all are valid.

    An id both out of range and repeated counts as out of range.

    Args:
        ids: [T, K]; -1 is valid anywhere and never a duplicate.
        num_experts: E.
    """
    out_of_range = (ids < NO_ROUTE) | (ids >= num_experts)
    repeated = np.zeros(ids.shape, dtype=bool)
    for lane in range(1, ids.shape[1]):
        repeated[:, lane] = (ids[:, :lane] == ids[:, lane : lane + 1]).any(axis=1)
    invalid = np.argwhere(out_of_range | (repeated & (ids != NO_ROUTE)))
    if len(invalid) == 0:
        return None
    token, lane = map(int, invalid[0])
    return InvalidId(token, lane, int(ids[token, lane]), "range" if out_of_range[token, lane] else "duplicate")


def _log_popularity(num_experts: int, zipf_exponent: float | None) -> Floats:
    if zipf_exponent is None:
        return np.zeros(num_experts)
    if not zipf_exponent > 0:
        raise RoutingError(f"zipf_exponent: expected above 0, received {zipf_exponent}.", "Use random for no skew.")
    return -zipf_exponent * np.log1p(np.arange(num_experts, dtype=np.float64))


def _distinct(rng: np.random.Generator, rows: int, count: int, log_weights: Floats) -> Ids:
    """`count` distinct indices a row, drawn one after another in proportion to the weights (Gumbel top-k)."""
    choices_per_row = len(log_weights)

    def draw(block: int) -> Ids:
        keys = log_weights + rng.gumbel(size=(block, choices_per_row))
        best = np.argpartition(keys, choices_per_row - count, axis=1)[:, choices_per_row - count :]
        order = np.argsort(-np.take_along_axis(keys, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)

    return _in_blocks(draw, rows, count, max(1, _BLOCK_ELEMENTS // choices_per_row))


def _in_blocks(draw: Callable[[int], Ids], rows: int, count: int, block: int) -> Ids:
    ids = np.empty((rows, count), dtype=np.int64)
    for start in range(0, rows, block):
        ids[start : start + block] = draw(min(block, rows - start))
    return ids


def _spread(rng: np.random.Generator, tokens: int, top_k: int, ffn_ranks: int, experts_per_rank: int) -> Ids:
    lanes_per_rank = -(-top_k // ffn_ranks)
    _check_enough("spread", "experts of an FFN rank", experts_per_rank, lanes_per_rank)
    local = _distinct(rng, tokens * ffn_ranks, lanes_per_rank, np.zeros(experts_per_rank))
    token, lane = np.arange(tokens)[:, None], np.arange(top_k)[None, :]
    rank = (token + lane) % ffn_ranks
    return rank * experts_per_rank + local[token * ffn_ranks + rank, lane // ffn_ranks]


def _all_to_one(rng: np.random.Generator, tokens: int, top_k: int, experts_per_rank: int) -> Ids:
    routed = min(top_k, experts_per_rank)
    ids = np.full((tokens, top_k), NO_ROUTE, dtype=np.int64)
    ids[:, :routed] = _distinct(rng, tokens, routed, np.zeros(experts_per_rank))
    return ids


def _check_enough(kind: str, what: str, available: int, needed: int) -> None:
    if available < needed:
        raise RoutingError(
            f"routing {kind}: expected at least {needed} {what} for distinct lanes, received {available}.",
            "Take a smaller top_k or more experts.",
        )


def _split(kind: str, num_experts: int, num_ffn_ranks: int | None) -> tuple[int, int]:
    if num_ffn_ranks is None or num_ffn_ranks < 1 or num_experts % num_ffn_ranks:
        raise RoutingError(
            f"routing {kind}: expected num_ffn_ranks dividing {num_experts} experts, received {num_ffn_ranks}.",
            "Pass num_ffn_ranks=layout.ffn_ranks.",
        )
    return num_ffn_ranks, num_experts // num_ffn_ranks
