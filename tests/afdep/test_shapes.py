from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from afdep import CapacityError, ExchangeShape, Layout, ShapeError


def shape(layout: str = "2A2F", **changes: Any) -> ExchangeShape:
    arguments = {"hidden": 2048, "num_experts": 128, "top_k": 8, "capacity": 2048} | changes
    return ExchangeShape(Layout.parse(layout), **arguments)


@pytest.mark.parametrize("hidden", [128, 512, 2048, 2880, 3072, 3584, 4096, 5120, 6144, 7168, 8192])
def test_every_hidden_of_the_field_is_taken_by_both_protocols(hidden: int) -> None:
    for protocol in ("afdep", "m2n"):
        shape(hidden=hidden).check_protocol(protocol)  # type: ignore[arg-type]
    assert shape(hidden=hidden).dtype.row_bytes(hidden) == 2 * hidden


@pytest.mark.parametrize("hidden", [2049, 2044, 4])
def test_rows_that_no_bulk_copy_can_move_are_refused(hidden: int) -> None:
    with pytest.raises(ShapeError, match=rf"hidden: expected a multiple of 8 .*, received {hidden}"):
        shape(hidden=hidden)


@pytest.mark.parametrize("dtype", ["fp8", "fp8-ue8m0"])
def test_fp8_rows_need_twice_the_elements_for_the_same_alignment(dtype: str) -> None:
    assert shape(hidden=2064, dispatch_dtype=dtype).hidden == 2064
    with pytest.raises(ShapeError, match="a multiple of 16"):
        shape(hidden=2056, dispatch_dtype=dtype)


@pytest.mark.parametrize(("dtype", "hidden"), [("bf16", 2056), ("fp8", 2064)])
def test_m2n_refuses_rows_that_its_record_cannot_carry(dtype: str, hidden: int) -> None:
    refused = shape(hidden=hidden, dispatch_dtype=dtype)
    refused.check_protocol("afdep")
    with pytest.raises(ShapeError, match="multiple of 32 bytes"):
        refused.check_protocol("m2n")


@pytest.mark.parametrize("top_k", [1, 2, 6, 8, 9, 11, 12, 16, 22, 32])
def test_any_top_k_to_32_is_taken(top_k: int) -> None:
    assert shape(top_k=top_k).top_k == top_k


@pytest.mark.parametrize("capacity", [1, 7, 100, 672, 2047, 2048, 8192])
def test_any_capacity_is_taken_as_it_is(capacity: int) -> None:
    assert shape(capacity=capacity).capacity == capacity


@pytest.mark.parametrize(
    ("layout", "experts"), [("1A1F", 128), ("2A1F", 128), ("3A1F", 128), ("1A3F", 96), ("3A2F", 128), ("5A3F", 96)]
)
def test_rank_counts_are_free(layout: str, experts: int) -> None:
    assert shape(layout, num_experts=experts).experts_per_rank * Layout.parse(layout).ffn_ranks == experts


def test_experts_that_the_ffn_ranks_do_not_divide_are_refused_with_both_numbers() -> None:
    with pytest.raises(ShapeError, match="the 3 FFN ranks of 1A3F, received 128"):
        shape("1A3F")


@pytest.mark.parametrize(
    ("argument", "value", "limit"),
    [
        ("hidden", 0, "1..8192"),
        ("hidden", 8200, "1..8192"),
        ("top_k", 0, "1..32"),
        ("top_k", 33, "1..32"),
        ("capacity", 0, "1..8192"),
        ("capacity", 8193, "1..8192"),
        ("num_experts", 32768, "1..32766"),
        ("num_experts", 0, "1..32766"),
        ("transport_sms", 0, "1..132"),
        ("transport_sms", 133, "1..132"),
        ("expert_alignment", 0, "1..8192"),
    ],
)
def test_a_value_outside_its_range_is_refused_with_the_range(argument: str, value: int, limit: str) -> None:
    with pytest.raises(ShapeError) as caught:
        shape(**{argument: value})
    assert (caught.value.argument, caught.value.expected, caught.value.received) == (argument, limit, value)


@pytest.mark.parametrize("value", [True, 8.0, "8", None], ids=repr)
@pytest.mark.parametrize("argument", ["hidden", "top_k", "capacity", "num_experts", "transport_sms"])
def test_a_value_that_is_no_integer_is_refused(argument: str, value: object) -> None:
    with pytest.raises(ShapeError, match=f"{argument}: expected an integer"):
        shape(**{argument: value})


def test_a_layout_in_text_and_an_unknown_dtype_are_refused() -> None:
    with pytest.raises(ShapeError, match="layout: expected a Layout, received '2A2F'"):
        ExchangeShape("2A2F", 2048, 128, 8, 2048)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="did you mean bf16"):
        shape(dispatch_dtype="bf61")


@pytest.mark.parametrize(("layout", "experts", "logical"), [("2A2F", 128, 256), ("3A1F", 128, 512), ("1A3F", 96, 128)])
def test_m2n_counts_expert_slots_on_every_rank(layout: str, experts: int, logical: int) -> None:
    assert shape(layout, num_experts=experts).logical_experts("m2n") == logical
    assert shape(layout, num_experts=experts).logical_experts("afdep") == experts


@given(st.integers(-2, 70), st.integers(-2, 70), st.integers(1, 66))
def test_a_bucket_is_accepted_exactly_when_tokens_fit_it_and_it_fits_the_capacity(t: int, b: int, cap: int) -> None:
    try:
        shape(capacity=cap).check_bucket(t, b)
        accepted = True
    except (CapacityError, ShapeError):
        accepted = False
    assert accepted == (0 <= t <= b <= cap and b >= 1)


def test_too_many_tokens_name_t_the_bucket_and_the_parameter() -> None:
    with pytest.raises(CapacityError, match="bucket: expected at most 64 tokens, received T = 65"):
        shape().check_bucket(65, 64)


def test_too_large_a_bucket_names_t_the_bucket_and_the_capacity() -> None:
    with pytest.raises(
        CapacityError, match=r"capacity: expected at most 2048 tokens, received bucket = 4096 \(T = 9\)"
    ):
        shape().check_bucket(9, 4096)


@given(st.integers(1, 9), st.integers(1, 12), st.lists(st.integers(0, 12), min_size=4, max_size=4))
def test_no_routing_receives_more_rows_than_the_maximum(alignment: int, bucket: int, counts: list[int]) -> None:
    small = shape("1A1F", num_experts=4, top_k=2, capacity=12, expert_alignment=alignment)
    assume(max(counts) <= bucket and sum(counts) <= 2 * bucket)
    assert sum(-(-count // alignment) * alignment for count in counts) <= small.max_received_rows(bucket)


def test_the_maximum_of_received_rows_counts_what_a_token_can_send_to_one_rank() -> None:
    assert shape("2A2F", top_k=8).max_received_rows(64) == 2 * 64 * 8
    assert shape("2A2F", num_experts=8, top_k=8).max_received_rows(64) == 2 * 64 * 4
