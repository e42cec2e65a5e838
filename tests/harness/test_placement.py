"""Seats of ranks on GPUs: roles stay apart, and whatever spins on a GPU fits every share of it, should they overlap."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afdep import Layout
from harness.errors import PlacementError
from harness.machine.gpus import Placement, Seat, place, planned

H200_SMS = 132
layouts = st.builds(Layout.parse, st.builds("{}A{}F".format, st.integers(1, 9), st.integers(1, 9)))
gpu_counts = st.integers(1, 12)


def loads(placement: Placement, ranks) -> list[int]:
    return sorted(Counter(placement.seats[rank].gpu for rank in ranks).values())


@given(layouts, gpu_counts)
def test_every_rank_has_a_seat_on_a_gpu_that_is_there(layout, gpus):
    seats = place(layout, gpus).seats
    assert len(seats) == layout.num_ranks
    assert all(0 <= seat.gpu < gpus for seat in seats)


@given(layouts, st.integers(2, 12))
def test_roles_never_share_a_gpu_where_there_are_two(layout, gpus):
    seats = place(layout, gpus).seats
    ffn = {seats[rank].gpu for rank in layout.ffn_rank_ids}
    assert ffn.isdisjoint(seats[rank].gpu for rank in layout.attention_rank_ids)


@given(layouts, gpu_counts)
def test_the_ranks_of_a_role_are_spread_evenly(layout, gpus):
    placement = place(layout, gpus)
    for ranks in (layout.ffn_rank_ids, layout.attention_rank_ids):
        assert loads(placement, ranks)[-1] - loads(placement, ranks)[0] <= 1


@given(layouts, gpu_counts)
def test_no_split_of_the_gpus_between_the_roles_is_less_crowded(layout, gpus):
    crowding = [max(-(-layout.ffn_ranks // ffn), -(-layout.attention_ranks // (gpus - ffn))) for ffn in range(1, gpus)]
    assert place(layout, gpus).ranks_per_gpu == min(crowding, default=layout.num_ranks)


@given(layouts, gpu_counts)
def test_what_spins_on_a_gpu_fits_every_share_of_it(layout, gpus):
    placement = place(layout, gpus)
    crowd, room = Counter(seat.gpu for seat in placement.seats), placement.room(H200_SMS)
    assert all(crowd[seat.gpu] * room <= seat.sms(H200_SMS) for seat in placement.seats)


def test_a_quarter_of_a_gpu_each_is_too_little_for_four_ranks():
    assert Placement((Seat(0, 25),) * 4).room(H200_SMS) == 8


@pytest.mark.parametrize(("ranks", "sms"), [(1, 132), (2, 33), (3, 44), (5, 26), (6, 22), (8, 16)])
def test_up_to_five_ranks_a_gpu_have_room_for_24_transport_sms_and_eight_for_16(ranks, sms):
    assert place(Layout.parse(f"{ranks - 1 or 1}A1F"), 1 if ranks > 1 else 2).room(H200_SMS) == sms


@pytest.mark.parametrize(("percentage", "sms"), [(100, 132), (50, 66), (25, 32), (20, 26), (16, 20)])
def test_a_share_comes_to_whole_pairs_of_sms(percentage, sms):
    assert Seat(0, percentage).sms(H200_SMS) == sms


@pytest.mark.parametrize(("layout", "gpus"), [("2A2F", [0, 0, 1, 1]), ("3A1F", [0, 1, 1, 1]), ("1A3F", [0, 0, 0, 1])])
def test_the_four_rank_layouts_stand_on_two_gpus_with_a_role_each(layout, gpus):
    assert [seat.gpu for seat in place(Layout.parse(layout), 2).seats] == gpus


@given(layouts)
def test_mps_is_needed_exactly_where_a_gpu_has_several_ranks(layout):
    assert place(layout, 1).is_shared
    assert not place(layout, layout.num_ranks).is_shared


def test_a_machine_without_a_gpu_seats_nobody():
    with pytest.raises(PlacementError, match="expected 1 GPU or more, received 0"):
        place(Layout.parse("1A1F"), 0)


@pytest.mark.parametrize(("layout", "ranks", "gpus"), [("1A1F", 1, 2), ("2A2F", 2, 2), ("3A1F", 3, 2), ("4A4F", 8, 1)])
def test_a_plan_finds_its_placement_by_the_ranks_on_the_fullest_gpu(layout, ranks, gpus):
    assert planned(Layout.parse(layout), ranks) == place(Layout.parse(layout), gpus)


def test_a_number_of_ranks_that_no_placement_has_is_refused_with_the_one_that_fits():
    with pytest.raises(PlacementError, match="expected 3 ranks on the fullest GPU, received 2 on the fewest GPUs") as e:
        planned(Layout.parse("2A2F"), 3)
    assert str(e.value).endswith("\nWrite backend.ranks_per_gpu=2.")
