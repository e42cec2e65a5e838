from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afdep import IdTypeError, RoutingError, ShapeError, routing

ARGUMENTS: dict[str, dict[str, Any]] = {
    "random": {},
    "skew": {"zipf_exponent": 1.1},
    "spread": {"num_ffn_ranks": 4},
    "all-to-one": {"num_ffn_ranks": 4},
}
every_kind = pytest.mark.parametrize("kind", routing.KINDS)


def make(kind: str, tokens: int = 64, num_experts: int = 64, top_k: int = 8, seed: int = 0) -> routing.Ids:
    return routing.make(kind, tokens, num_experts, top_k, seed, **ARGUMENTS[kind])


@given(
    st.sampled_from(routing.KINDS), st.integers(0, 40), st.integers(1, 16), st.integers(1, 16), st.integers(0, 2**40)
)
@settings(deadline=None)
def test_every_generated_routing_is_valid(kind: str, tokens: int, groups: int, top_k: int, seed: int) -> None:
    experts = 4 * max(groups, -(-top_k // 4))
    ids = make(kind, tokens, experts, top_k, seed)
    assert (ids.shape, ids.dtype) == ((tokens, top_k), np.int64)
    assert routing.first_invalid(ids, experts) is None


@every_kind
def test_a_seed_repeats_and_another_differs(kind: str) -> None:
    assert np.array_equal(make(kind, seed=3), make(kind, seed=3))
    assert not np.array_equal(make(kind, seed=3), make(kind, seed=4))


@every_kind
def test_no_tokens_give_no_rows(kind: str) -> None:
    assert make(kind, tokens=0).shape == (0, 8)


def test_drawing_in_blocks_changes_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make("random", tokens=50)
    monkeypatch.setattr(routing, "_BLOCK_ELEMENTS", 7 * 64)
    assert np.array_equal(make("random", tokens=50), whole)


def test_random_uses_every_expert_and_every_lane_alike() -> None:
    ids = make("random", tokens=4000)
    for lane in (ids[:, 0], ids[:, 7]):
        counts = np.bincount(lane, minlength=64)
        assert ((counts > 30) & (counts < 110)).all()


def test_skew_prefers_the_same_experts_whatever_the_seed() -> None:
    popular = [np.bincount(make("skew", tokens=4000, seed=seed)[:, 0], minlength=64) for seed in (1, 2)]
    assert popular[0].argmax() == popular[1].argmax()
    assert popular[0].max() > 5 * np.median(popular[0])


def test_skew_loads_the_first_ffn_rank_most() -> None:
    rows = np.bincount(make("skew", tokens=1000).ravel() // 16, minlength=4)
    assert (np.diff(rows) < 0).all()
    assert rows[0] > 2 * rows[1]


def test_the_first_lane_of_skew_follows_the_zipf_weights() -> None:
    counts = np.sort(np.bincount(make("skew", tokens=40_000)[:, 0], minlength=64))[::-1] / 40_000
    weights = np.arange(1, 65) ** -1.1
    assert np.abs(counts[:8] - (weights / weights.sum())[:8]).max() < 0.01


@given(st.integers(1, 8), st.integers(1, 16), st.integers(0, 1000))
@settings(deadline=None)
def test_spread_hits_ffn_ranks_evenly_within_every_token(ffn_ranks: int, top_k: int, seed: int) -> None:
    ids = routing.make("spread", 20, 16 * ffn_ranks, top_k, seed, num_ffn_ranks=ffn_ranks)
    for ranks in ids // 16:
        counts = np.bincount(ranks, minlength=ffn_ranks)
        assert counts.max() - counts.min() <= 1


def test_all_to_one_stays_on_the_first_ffn_rank() -> None:
    ids = make("all-to-one", num_experts=64, top_k=8)
    assert ids.min() >= 0
    assert ids.max() < 16


def test_all_to_one_leaves_the_lanes_beyond_its_experts_without_a_route() -> None:
    ids = routing.make("all-to-one", 9, 12, 6, 0, num_ffn_ranks=3)
    assert (np.sort(ids[:, :4]) == np.arange(4)).all()
    assert (ids[:, 4:] == -1).all()


def test_an_empty_source_beside_three_that_choose_one_rank_gives_72_rows() -> None:
    ids = [routing.make("all-to-one", tokens, 128, 6, 0, num_ffn_ranks=2) for tokens in (0, 4, 4, 4)]
    rows = np.concatenate(ids) // 64
    assert np.bincount(rows.ravel(), minlength=2).tolist() == [72, 0]


@pytest.mark.parametrize(
    ("kind", "changes", "complaint"),
    [
        ("radnom", {}, "received 'radnom'"),
        ("random", {"top_k": 65}, "at least 65 experts .* received 64"),
        ("random", {"tokens": -1}, "T = -1"),
        ("random", {"top_k": 0}, "K = 0"),
        ("random", {"zipf_exponent": 1.0}, "zipf_exponent for skew alone"),
        ("skew", {}, "zipf_exponent for skew alone, received None"),
        ("skew", {"zipf_exponent": 0.0}, "expected above 0"),
        ("skew", {"zipf_exponent": float("nan")}, "expected above 0"),
        ("spread", {}, "num_ffn_ranks dividing 64 experts, received None"),
        ("spread", {"num_ffn_ranks": 3}, "received 3"),
        ("spread", {"num_ffn_ranks": 32, "top_k": 65}, "at least 3 experts of an FFN rank .* received 2"),
        ("all-to-one", {"num_ffn_ranks": 0}, "received 0"),
    ],
)
def test_a_routing_that_cannot_be_is_refused(kind: str, changes: dict[str, Any], complaint: str) -> None:
    arguments: dict[str, Any] = {"tokens": 8, "num_experts": 64, "top_k": 8, "seed": 0} | changes
    with pytest.raises(RoutingError, match=complaint):
        routing.make(kind, **arguments)


def test_a_misspelt_kind_lists_the_valid_ones() -> None:
    with pytest.raises(RoutingError) as caught:
        routing.make("radnom", 1, 8, 1, 0)
    assert caught.value.next_step == "did you mean random? Valid: random, skew, spread, all-to-one."


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_int32_and_int64_ids_pass_uncopied(dtype: str) -> None:
    ids = np.full((3, 8), -1, dtype=dtype)
    assert routing.check_ids(ids, 3, 8, 128) is ids


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint32", "uint64", "float32", "float64", "bool", ">i4"])
def test_ids_of_another_type_are_refused_by_name(dtype: str) -> None:
    with pytest.raises(IdTypeError, match=f"received {np.dtype(dtype)}") as caught:
        routing.check_ids(np.zeros((3, 8), dtype=dtype), 3, 8, 128)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("shape", [(8, 3), (3, 7), (24,), (3, 8, 1), (0,)], ids=str)
def test_ids_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"topk_idx: expected shape \(3, 8\)"):
        routing.check_ids(np.zeros(shape, dtype=np.int64), 3, 8, 128)


def test_a_source_without_tokens_passes_zero_rows() -> None:
    assert routing.check_ids(np.zeros((0, 8), dtype=np.int32), 0, 8, 128).size == 0


def test_ids_out_of_range_pass_the_host_check() -> None:
    routing.check_ids(np.full((1, 1), 2**40), 1, 1, 128)


@pytest.mark.parametrize(
    ("row", "lane", "kind"),
    [
        ([0, 1, 128, -1], 2, "range"),
        ([0, -2, 5, -1], 1, "range"),
        ([0, 2**31 - 1, 5, 6], 1, "range"),
        ([0, 2**31 + 5, 5, 6], 1, "range"),
        ([7, -1, 3, 7], 3, "duplicate"),
        ([3, 3, 3, 3], 1, "duplicate"),
        ([128, 128, 3, 4], 0, "range"),
    ],
)
def test_the_first_invalid_route_is_found(row: list[int], lane: int, kind: str) -> None:
    ids = np.array([[0, 1, 2, 3], [-1, -1, -1, -1], row, [-9, 0, 0, 0]])
    assert routing.first_invalid(ids, 128) == (2, lane, row[lane], kind)


def test_missing_routes_are_valid_anywhere() -> None:
    ids = np.array([[-1, -1, -1], [-1, 5, 6], [5, -1, 6], [5, 6, -1]])
    assert routing.first_invalid(ids, 128) is None
