from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from afdep import MismatchError, reference, routing
from afdep.proof import checks
from afdep.reference import Sent

FFN_RANKS, EXPERTS, RANK = 2, 16, 1
ALIGNMENT = 4


@dataclass(frozen=True)
class Received:
    x: Any
    weights: Any
    expert_offsets: Any
    source: Any
    scales: Any = None


def source(seed: int, tokens: int) -> Sent:
    ids = routing.make("random", tokens, EXPERTS, 4, seed)
    ids[:, 1] = -1
    rng = np.random.default_rng(seed)
    weights = rng.random((tokens, 4), dtype=np.float32)
    scales = rng.integers(1, 255, (tokens, 2), dtype=np.int32)
    return Sent(reference.payload(tokens, 8, seed), ids, weights, scales)


SENT = [source(0, 9), source(1, 0), source(2, 6)]


def delivered() -> Received:
    """What a faithful exchange delivers to RANK: rows of an expert in any order, padding, then a stale tail."""
    expected = checks.expected_rows([s.topk_idx for s in SENT], rank=RANK, num_ffn_ranks=FFN_RANKS, num_experts=EXPERTS)
    offsets = checks.expected_offsets(expected, EXPERTS // FFN_RANKS, ALIGNMENT)
    rows = int(offsets[-1])
    received = Received(
        np.zeros((rows + 3, 8), reference.BF16),
        np.zeros(rows + 3, np.float32),
        offsets.astype(np.int32),
        np.full((rows + 3, 3), -1, np.int32),
        np.zeros((rows + 3, 2), np.int32),
    )
    received.x[rows:] = 7
    fill(received, np.random.default_rng(0).permutation(expected))
    return received


def fill(received: Received, table: routing.Ids) -> None:
    taken = received.expert_offsets.copy()
    for expert, rank, token, lane in table:
        row, taken[expert] = taken[expert], taken[expert] + 1
        sent = SENT[rank - FFN_RANKS]
        received.x[row], received.weights[row] = sent.x[token], sent.topk_weights[token, lane]
        received.scales[row], received.source[row] = sent.scales[token], (rank, token, lane)


def check(received: Received) -> None:
    checks.check_received(
        received, SENT, rank=RANK, num_ffn_ranks=FFN_RANKS, num_experts=EXPERTS, expert_alignment=ALIGNMENT
    )


def real_row(received: Received, index: int = 3) -> int:
    return int(np.flatnonzero(received.source[:, 0] >= 0)[index])


def padding_row(received: Received) -> int:
    return int(np.flatnonzero(received.source[: received.expert_offsets[-1], 0] < 0)[0])


def test_a_faithful_exchange_passes_in_any_row_order() -> None:
    check(delivered())


def test_expected_rows_are_each_route_to_the_rank_once() -> None:
    rows = checks.expected_rows([s.topk_idx for s in SENT], rank=RANK, num_ffn_ranks=FFN_RANKS, num_experts=EXPERTS)
    routes = [
        (ids[t, k] - 8, FFN_RANKS + s, t, k)
        for s, ids in enumerate(sent.topk_idx for sent in SENT)
        for t in range(len(ids))
        for k in range(4)
        if ids[t, k] >= 8
    ]
    assert [tuple(row) for row in rows.tolist()] == sorted(routes)
    assert len(routes) > 10


def test_72_rows_of_three_sources_arrive_at_one_rank_and_none_at_the_other() -> None:
    ids = [routing.make("all-to-one", tokens, 128, 6, 0, num_ffn_ranks=2) for tokens in (0, 4, 4, 4)]
    counts = [len(checks.expected_rows(ids, rank=rank, num_ffn_ranks=2, num_experts=128)) for rank in (0, 1)]
    assert counts == [72, 0]


@pytest.mark.parametrize("column", [0, 7])
def test_one_flipped_bit_of_a_row_is_found_where_it_is(column: int) -> None:
    received = delivered()
    row = real_row(received)
    received.x.view(np.uint16)[row, column] ^= 1
    with pytest.raises(MismatchError) as caught:
        check(received)
    found = caught.value
    assert (found.what, found.rank, found.row, found.column) == ("received row", RANK, row, column)
    assert [found.source, found.token, found.lane] == received.source[row].tolist()


def test_a_negative_zero_for_a_zero_is_found() -> None:
    expected = np.zeros((2, 8), reference.BF16)
    with pytest.raises(MismatchError, match="token 1, column 0: expected 0x0, received 0x8000"):
        checks.check_collected(np.array([[0.0] * 8, [-0.0] * 8]).astype(reference.BF16), expected, rank=2)


def test_rows_under_each_others_names_are_found() -> None:
    received = delivered()
    one, other = real_row(received, 0), real_row(received, 5)
    received.x[[one, other]] = received.x[[other, one]]
    with pytest.raises(MismatchError, match="received row"):
        check(received)


def test_a_row_in_the_block_of_another_expert_is_found() -> None:
    received = delivered()
    first, last = real_row(received, 0), real_row(received, -1)
    for array in (received.x, received.weights, received.scales, received.source):
        array[[first, last]] = array[[last, first]]
    with pytest.raises(MismatchError, match=r"row of local expert .* received one more"):
        check(received)


def test_a_missing_row_is_named() -> None:
    received = delivered()
    row = real_row(received)
    missing = received.source[row].tolist()
    received.source[row] = -1
    with pytest.raises(MismatchError, match="expected it once, received no row") as caught:
        check(received)
    assert [caught.value.source, caught.value.token, caught.value.lane] == missing


def test_a_row_delivered_twice_is_found() -> None:
    received = delivered()
    row = real_row(received, 1)
    received.source[row] = received.source[real_row(received, 0)]
    with pytest.raises(MismatchError, match="received one more"):
        check(received)


@pytest.mark.parametrize(("part", "what"), [("weights", "received weight"), ("scales", "received scales")])
def test_a_wrong_weight_or_scale_is_found(part: str, what: str) -> None:
    received = delivered()
    getattr(received, part)[real_row(received)] += 1
    with pytest.raises(MismatchError, match=what):
        check(received)


@pytest.mark.parametrize("part", ["weights", "scales"])
def test_weights_and_scales_that_were_sent_must_arrive(part: str) -> None:
    with pytest.raises(MismatchError, match=f"received {part} .* received None"):
        check(replace(delivered(), **{part: None}))


@pytest.mark.parametrize("part", ["x", "weights", "scales"])
def test_padding_that_is_not_zero_is_found(part: str) -> None:
    received = delivered()
    getattr(received, part)[padding_row(received)] = 1
    with pytest.raises(MismatchError, match="padding"):
        check(received)


def test_wrong_offsets_are_found() -> None:
    received = delivered()
    received.expert_offsets[2] += 1
    with pytest.raises(MismatchError, match="expert_offsets at rank 1"):
        check(received)


@pytest.mark.parametrize(("part", "what"), [("source", "source table"), ("x", "received row array")])
def test_an_array_of_another_shape_is_found(part: str, what: str) -> None:
    received = delivered()
    with pytest.raises(MismatchError, match=what):
        check(replace(received, **{part: getattr(received, part)[:, :2]}))


def test_a_collected_bit_is_found_where_it_is() -> None:
    expected = reference.payload(5, 8, 0)
    wrong = expected.copy()
    wrong.view(np.uint16)[3, 6] ^= 0x8000
    checks.check_collected(expected.copy(), expected, rank=2)
    with pytest.raises(MismatchError, match="collected row at rank 2, source 2, token 3, column 6"):
        checks.check_collected(wrong, expected, rank=2)


@pytest.mark.parametrize(
    "wrong", [np.zeros((4, 8), reference.BF16), np.zeros((5, 8), np.float32)], ids=["shape", "dtype"]
)
def test_a_collected_array_of_another_kind_is_found(wrong: reference.Array) -> None:
    with pytest.raises(MismatchError, match="collected array"):
        checks.check_collected(wrong, reference.payload(5, 8, 0), rank=2)
