import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afdep import reference, routing
from afdep.reference import BF16, Array, Sent, cancelling_experts


def bits(rows: Array) -> list[list[int]]:
    return rows.view(np.uint16).tolist()


def rounded_sum(rows: list[Array]) -> Array:
    """The stated rule: copy one; add the others to the first in FP32, one after another, and round at the end."""
    total = rows[0].astype(np.float32)
    for row in rows[1:]:
        total = total + row.astype(np.float32)
    return total.astype(BF16) if len(rows) > 1 else rows[0]


def combine_one_token(x: Array, ids: list[int], experts_per_rank: int) -> Array:
    """The stated order: lanes within an FFN rank, then FFN ranks by their last lane."""
    rows: dict[int, list[Array]] = {}
    last_lane: dict[int, int] = {}
    for lane, expert in enumerate(ids):
        if expert >= 0:
            rows.setdefault(expert // experts_per_rank, []).append(cancelling_experts(x, np.array([expert])))
            last_lane[expert // experts_per_rank] = lane
    if not rows:
        return np.zeros_like(x)
    return rounded_sum([rounded_sum(rows[rank]) for rank in sorted(rows, key=last_lane.__getitem__)])


@given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 9), st.floats(0, 1), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_combine_follows_the_stated_order_and_rounding(
    ffn_ranks: int, top_k: int, tokens: int, missing: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ids = routing.make("random", tokens, 12 * ffn_ranks, top_k, seed)
    ids[rng.random(ids.shape) < missing] = -1
    x = reference.payload(tokens, 8, seed)
    x[rng.random(x.shape) < 0.3] = 0
    experts = 12 * ffn_ranks
    collected = reference.combine(x, ids, num_ffn_ranks=ffn_ranks, num_experts=experts, expert=cancelling_experts)
    assert bits(collected) == [bits(combine_one_token(x[t : t + 1], ids[t], 12))[0] for t in range(tokens)]


def test_the_expert_scale_is_the_stated_power_of_two() -> None:
    experts = np.arange(40)
    expected = [2.0 ** ((e % 5) - 2) * (-1 if (e // 5) % 2 else 1) for e in range(40)]
    assert reference.expert_scale(experts).tolist() == expected


def test_neighbouring_experts_never_share_a_scale() -> None:
    scales = reference.expert_scale(np.arange(10))
    assert len(set(scales.tolist())) == 10


def test_experts_are_exact_on_the_payload() -> None:
    x = reference.payload(200, 64, 0)
    experts = np.arange(200)
    exact = x.astype(np.float64) * reference.expert_scale(experts)[:, None]
    assert np.array_equal(reference.apply_experts(x, experts).astype(np.float64), exact)


def test_the_payload_spans_its_range_and_repeats_by_seed() -> None:
    x = reference.payload(64, 256, 5)
    assert (x.dtype, float(x.min()), float(x.max())) == (BF16, -4.0, 127 / 32)
    assert bits(x) == bits(reference.payload(64, 256, 5)) != bits(reference.payload(64, 256, 6))


@pytest.mark.parametrize("num_ffn_ranks", [1, 4], ids=["lanes of a rank", "replies"])
def test_the_order_of_a_sum_shows_with_cancelling_experts(num_ffn_ranks: int) -> None:
    x, ids = reference.payload(64, 64, 0), routing.make("random", 64, 64, 4, 0)
    forward, backward = (
        reference.combine(x, i, num_ffn_ranks=num_ffn_ranks, num_experts=64, expert=cancelling_experts)
        for i in (ids, ids[:, ::-1])
    )
    assert bits(forward) != bits(backward)


def test_replies_are_summed_in_the_order_of_each_ranks_last_lane() -> None:
    x = reference.payload(64, 64, 1)
    collected = reference.combine(
        x, np.tile([0, 22, 41, 3], (64, 1)), num_ffn_ranks=3, num_experts=60, expert=cancelling_experts
    )
    rows = {expert: cancelling_experts(x, np.full(64, expert)) for expert in (0, 3, 22, 41)}
    first_rank = rounded_sum([rows[0], rows[3]])
    assert bits(collected) == bits(rounded_sum([rows[22], rows[41], first_rank]))
    assert bits(collected) != bits(rounded_sum([first_rank, rows[22], rows[41]]))


@pytest.mark.parametrize("lane", [0, 3, 7])
def test_a_single_route_is_copied_bit_for_bit(lane: int) -> None:
    x = np.array([[0x0000, 0x8000, 0x7F80, 0x7FA5, 0xFFFF, 0x0001, 0x8001, 0x3F80]], dtype=np.uint16).view(BF16)
    ids = np.full((1, 8), -1)
    ids[0, lane] = 9
    assert bits(reference.combine(x, ids, num_ffn_ranks=2, num_experts=16, expert=lambda rows, _: rows)) == bits(x)


@pytest.mark.parametrize("num_ffn_ranks", [1, 2, 8])
@pytest.mark.parametrize("routes", [1, 2, 3, 8])
def test_negative_zeros_alone_sum_to_negative_zero(routes: int, num_ffn_ranks: int) -> None:
    x = np.full((1, 8), 0x8000, dtype=np.uint16).view(BF16)
    ids = np.array([[*range(0, 2 * routes, 2), *[-1] * (8 - routes)]])
    collected = reference.combine(x, ids, num_ffn_ranks=num_ffn_ranks, num_experts=16, expert=lambda rows, _: rows)
    assert set(bits(collected)[0]) == {0x8000}


def test_a_token_without_a_route_is_zero() -> None:
    ids = np.array([[-1, -1], [3, -1], [-1, -1]])
    collected = bits(reference.combine(reference.payload(3, 8, 0), ids, num_ffn_ranks=2, num_experts=4))
    assert collected[0] == collected[2] == [0] * 8
    assert collected[1] != [0] * 8


def test_a_source_without_tokens_collects_no_rows() -> None:
    collected = reference.combine(np.zeros((0, 16), BF16), np.zeros((0, 8), np.int64), num_ffn_ranks=2, num_experts=128)
    assert (collected.shape, collected.dtype) == ((0, 16), BF16)


def test_int32_ids_give_the_same_bits_as_int64() -> None:
    x, ids = reference.payload(16, 8, 0), routing.make("random", 16, 64, 8, 0)
    wide, narrow = (reference.combine(x, i, num_ffn_ranks=4, num_experts=64) for i in (ids, ids.astype(np.int32)))
    assert bits(wide) == bits(narrow)


def test_working_in_blocks_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    x, ids = reference.payload(50, 64, 0), routing.make("random", 50, 64, 8, 0)
    whole = reference.combine(x, ids, num_ffn_ranks=4, num_experts=64)
    monkeypatch.setattr(reference, "_BLOCK_ELEMENTS", 7 * 64)
    assert bits(reference.combine(x, ids, num_ffn_ranks=4, num_experts=64)) == bits(whole)


def test_an_exchange_is_the_combine_of_every_source() -> None:
    sent = [Sent(reference.payload(t, 8, t), routing.make("random", t, 64, 8, t)) for t in (5, 0, 7)]
    collected = reference.exchange(sent, num_ffn_ranks=2, num_experts=64)
    expected = [reference.combine(s.x, s.topk_idx, num_ffn_ranks=2, num_experts=64) for s in sent]
    assert [bits(rows) for rows in collected] == [bits(rows) for rows in expected]
