"""The shipped kernels survive the hunt, and a seed says what it drew."""

from dataclasses import replace
from functools import partial

import pytest

import afdep
from afdep.proof import aborts, scenario
from afdep.proof.giving_up import BadRoute, Refusal, RefusalBeside, TimeOut
from afdep.proof.hunt import run_seed, run_seeds, world_of
from afdep.proof.scenario import Hunt

SEEDS = 500
"""A hunt of each family, as seeds from 0."""


def first_finding(hunt: Hunt, seeds: range):
    return next(run_seeds(hunt, seeds), None)


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
def test_shipped_kernels_are_clean_over_500_seeds(arm):
    assert first_finding(Hunt.small(arm), range(SEEDS)) is None


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
def test_shipped_kernels_are_clean_with_thread_fibers(arm):
    assert first_finding(Hunt.small(arm, fiber="thread"), range(8)) is None


@pytest.mark.parametrize("control", afdep.controls.NAMES)
def test_every_control_is_clean_in_the_hunt(control):
    assert first_finding(Hunt.small(f"afdep[{control}=1]"), range(60)) is None


def test_drawn_controls_are_clean_in_the_hunt():
    assert first_finding(Hunt.small("afdep", controls=afdep.controls.NAMES), range(100)) is None


@pytest.mark.parametrize("dtype", ["fp8", "fp8-ue8m0"])
def test_scaled_rows_are_clean_in_the_hunt(dtype):
    assert first_finding(Hunt.small("afdep", dtype=dtype, hidden=128), range(40)) is None


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
def test_a_capacity_of_one_token_is_clean_in_the_hunt(arm):
    assert first_finding(Hunt.small(arm, capacity=1), range(60)) is None


def test_a_seed_without_a_bug_replays_the_same_schedule():
    hunt = Hunt.small("afdep", exchanges=2)
    assert run_seed(hunt, 7) is run_seed(hunt, 7) is None


def test_seeds_draw_every_layout_control_and_way_to_run():
    hunt = Hunt.small("afdep", controls=afdep.controls.NAMES)
    drawn = [scenario.draw(hunt, seed) for seed in range(60)]
    assert {str(one.layout) for one in drawn} == set(hunt.layouts)
    assert {name for one in drawn for name, _ in one.arm.switches} == set(afdep.controls.NAMES)
    assert {(one.replayed, one.second is not None) for one in drawn} == {(False, False), (True, False), (False, True)}


def test_rounds_of_a_graph_differ_in_their_ids_alone():
    drawn = scenario.draw(Hunt.small("afdep", graphs=1.0), 3)
    first, second = drawn.rounds
    assert [load.bucket for load in first] == [load.bucket for load in second]
    shapes = [[[ids.shape for ids in load.topk_idx] for load in loads] for loads in drawn.rounds]
    assert shapes[0] == shapes[1]
    ids = [[load.topk_idx[0].tolist() for load in loads] for loads in drawn.rounds]
    assert ids[0] != ids[1]


def test_second_buffers_draw_another_shape_and_the_order_of_all_calls():
    drawn = [scenario.draw(Hunt.small("afdep", graphs=0.0, buffers=1.0), seed).second for seed in range(40)]
    assert {one.hidden for one in drawn} == {64, 128}
    assert {one.top_k for one in drawn} == {1, 2, 3, 4}
    assert {one.capacity for one in drawn} == {5, 16, 32}
    assert all(sorted(one.order) == [0] * 6 + [1] * 6 for one in drawn)
    assert len({one.order for one in drawn}) > 30


@pytest.mark.parametrize("arm", ["m2n", "afdep", "afdep[AFDEP_UNION_NOTIFY=1]"])
def test_two_buffers_in_flight_together_are_clean_in_the_hunt(arm):
    assert first_finding(Hunt.small(arm, graphs=0.0, buffers=1.0), range(150)) is None


def test_a_draw_leaves_the_others_as_they_are():
    usual, changed = (scenario.draw(Hunt.small("afdep", **fields), 11) for fields in ({}, {"exchanges": 1}))
    assert str(usual) == str(changed)
    pairs = zip(usual.rounds[0][0].topk_idx, changed.rounds[0][0].topk_idx, strict=True)
    assert all((one == other).all() for one, other in pairs)


@pytest.mark.parametrize("arm", ["m2n", "afdep", "afdep[AFDEP_UNION_NOTIFY=1]"])
def test_no_host_takes_for_good_what_is_not_where_a_rank_gives_up(arm):
    assert first_finding(Hunt.small(arm, aborts=1.0, buffers=0.0), range(250)) is None


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
def test_a_rank_gives_up_with_thread_fibers_as_with_warp_fibers(arm):
    assert first_finding(Hunt.small(arm, fiber="thread", aborts=1.0, buffers=0.0), range(6)) is None


def test_seeds_draw_every_way_to_give_up_and_replayed_hosts_never_stop():
    drawn = [scenario.draw(Hunt.small("afdep", aborts=1.0, buffers=0.0), seed) for seed in range(120)]
    assert {type(one.abort.way) for one in drawn} == {BadRoute, Refusal, RefusalBeside, TimeOut}
    assert not any(one.replayed and isinstance(one.abort.way, Refusal) for one in drawn)
    assert {one.abort.late is None for one in drawn} == {True, False}


def test_an_abort_leaves_what_is_exchanged_as_it_is():
    usual, aborted = (scenario.draw(Hunt.small("afdep", aborts=share, buffers=0.0), 11) for share in (0.0, 1.0))
    assert (usual.abort, replace(aborted, abort=None).arm) == (None, usual.arm)
    pairs = zip(usual.rounds[0][0].topk_idx, aborted.rounds[0][0].topk_idx, strict=True)
    assert all((one == other).all() for one, other in pairs)


def test_more_than_a_third_of_the_time_outs_come_while_others_still_exchange():
    hunt = Hunt.small("afdep", aborts=1.0, buffers=0.0, graphs=0.0)
    seeds = [seed for seed in range(60) if isinstance(scenario.draw(hunt, seed).abort.way, TimeOut)]
    told = [bool(world.informed_ranks) for world in map(partial(world_after, hunt), seeds)]
    assert sum(told) > len(seeds) / 3


def world_after(hunt: Hunt, seed: int):
    """The World of a seed in which a rank gives up, once it has run."""
    drawn = scenario.draw(hunt, seed)
    world = world_of(hunt, drawn, seed)
    aborts.prove(world, drawn.rounds[0], drawn.abort, seed, drawn.replayed)
    return world
