import pytest
from hypothesis import given
from hypothesis import strategies as st

from afdep import Layout, ShapeError, window
from afdep.shapes import ROW_ALIGNMENT

PUBLISHED_MB = [("2A2F", True, 34.6), ("2A2F", False, 17.3), ("3A1F", False, 26.0), ("1A3F", False, 25.6)]


@pytest.mark.parametrize(("layout", "union", "megabytes"), PUBLISHED_MB)
def test_registered_bytes_are_the_published_ones(layout: str, union: bool, megabytes: float) -> None:
    registered = window.registered_bytes(Layout.parse(layout), 2048, "bf16", 8, 2048, union)
    assert round(registered / 1e6, 1) == megabytes


@pytest.mark.parametrize("layout", ["2A2F", "3A1F", "1A3F"])
def test_four_ranks_register_the_same_union_whatever_their_roles(layout: str) -> None:
    assert window.registered_bytes(Layout.parse(layout), 2048, "bf16", 8, 2048, union=True) == 4 * 2048 * 4224


@pytest.mark.parametrize(
    ("dtype", "hidden", "num_bytes"),
    [
        ("bf16", 2048, 4224),
        ("bf16", 4096, 8320),
        ("bf16", 7168, 14464),
        ("fp8", 2048, 2240),
        ("fp8", 4096, 4352),
        ("fp8", 7168, 7520),
        ("fp8-ue8m0", 2048, 2048 + 32 + 128),
        ("fp8-ue8m0", 7168, 7168 + 64 + 128),
    ],
)
def test_dispatch_record_at_top_8(dtype: str, hidden: int, num_bytes: int) -> None:
    assert window.dispatch_record_bytes(hidden, dtype, 8) == num_bytes


@pytest.mark.parametrize(("hidden", "num_bytes"), [(2048, 4160), (4096, 8256), (7168, 14400)])
def test_combine_record_at_top_8(hidden: int, num_bytes: int) -> None:
    assert window.combine_record_bytes(hidden, 8) == num_bytes


@given(st.integers(1, 512), st.sampled_from(["bf16", "fp8", "fp8-ue8m0"]), st.integers(1, 32))
def test_every_record_can_be_moved_by_one_bulk_copy(granules: int, dtype: str, top_k: int) -> None:
    assert window.dispatch_record_bytes(16 * granules, dtype, top_k) % ROW_ALIGNMENT == 0
    assert window.combine_record_bytes(16 * granules, top_k) % ROW_ALIGNMENT == 0


@pytest.mark.parametrize(("layout", "regions"), [("6A2F", 2), ("7A2F", 8), ("1A8F", 8)])
def test_combine_has_a_region_per_lane_once_ranks_exceed_top_k(layout: str, regions: int) -> None:
    assert window.combine_regions(Layout.parse(layout), 8, union=False) == regions


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 32))
def test_role_sizing_never_registers_more_than_union(attention: int, ffn: int, top_k: int) -> None:
    layout = Layout(attention, ffn)
    role, union = (window.registered_bytes(layout, 2048, "bf16", top_k, 64, union) for union in (False, True))
    assert role <= union


def test_sizes_beyond_32_bits_are_exact() -> None:
    registered = window.registered_bytes(Layout.parse("8A8F"), 8192, "bf16", 8, 2**20, union=False)
    assert registered == 8 * 2**20 * (2 * 8192 + 128) > 2**37


def test_an_unknown_dtype_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ShapeError, match="Valid: bf16, fp8, fp8-ue8m0"):
        window.dispatch_record_bytes(2048, "int4", 8)
