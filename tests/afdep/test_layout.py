import pytest
from hypothesis import given
from hypothesis import strategies as st

from afdep import Layout, LayoutError
from afdep.layout import MAX_RANKS

layouts = st.integers(1, MAX_RANKS - 1).flatmap(
    lambda attention: st.integers(1, MAX_RANKS - attention).map(lambda ffn: Layout(attention, ffn))
)


@given(layouts)
def test_every_layout_reads_back_from_its_name(layout: Layout) -> None:
    assert Layout.parse(str(layout)) == layout


@given(layouts)
def test_both_colon_spellings_mean_the_same_layout(layout: Layout) -> None:
    attention, ffn = layout.attention_ranks, layout.ffn_ranks
    assert Layout.parse(f"{attention}A:{ffn}F") == Layout.parse(f"{ffn}F:{attention}A") == layout


@given(layouts)
def test_every_rank_has_one_role_and_ffn_ranks_come_first(layout: Layout) -> None:
    roles = [layout.role(rank) for rank in range(layout.num_ranks)]
    assert roles == ["ffn"] * layout.ffn_ranks + ["attention"] * layout.attention_ranks
    assert [*layout.ffn_rank_ids, *layout.attention_rank_ids] == list(range(layout.num_ranks))


@pytest.mark.parametrize(
    "text", ["4:4", "2A2A", "2F2A", "A2F2", "2a2f", "02A2F", "2A 2F", " 2A2F", "2A2F\n", "", "1F:2A x2"]
)
def test_other_spellings_are_refused_with_the_valid_ones_and_the_yaml_trap(text: str) -> None:
    with pytest.raises(LayoutError) as caught:
        Layout.parse(text)
    first, second = str(caught.value).split("\n")
    assert repr(text) in first
    for word in ("2A2F", "2A:2F", "2F:2A", "244"):
        assert word in second


@pytest.mark.parametrize("read", [244, 4.4, True, False, None, ["2A2F"]], ids=repr)
def test_what_yaml_read_instead_of_text_is_refused_and_shown(read: object) -> None:
    with pytest.raises(LayoutError) as caught:
        Layout.parse(read)
    assert f"{type(read).__name__} {read!r}" in str(caught.value)


@pytest.mark.parametrize("text", ["0A1F", "1A0F", "0F:3A"])
def test_a_layout_needs_a_rank_of_each_role(text: str) -> None:
    with pytest.raises(LayoutError, match="at least 1, received 0"):
        Layout.parse(text)


@pytest.mark.parametrize("count", [True, 2.0, "2", -1], ids=repr)
def test_a_count_that_is_no_positive_integer_is_refused(count: object) -> None:
    with pytest.raises(LayoutError, match="at least 1"):
        Layout(count, 1)  # type: ignore[arg-type]


def test_a_layout_holds_128_ranks_and_no_more() -> None:
    assert Layout.parse("127A1F").num_ranks == 128
    with pytest.raises(LayoutError, match="at most 128 ranks together, received 129"):
        Layout.parse("127A2F")


@pytest.mark.parametrize("rank", [-1, 5])
def test_a_rank_outside_the_layout_has_no_role(rank: int) -> None:
    with pytest.raises(LayoutError, match=f"0..4 in 3A2F, received {rank}"):
        Layout.parse("3A2F").role(rank)
