"""What users of such systems ran into, each case by its number, with the right behaviour."""

import gc
import mmap
from pathlib import Path

import numpy as np
import pytest

from afdep import IdTypeError, Layout, Load, OutOfMemoryError, ShapeError, proof, reference, window
from tests.sim.exchanges import ARMS, exchange, full, make_routes, make_world

by_arm = pytest.mark.parametrize("arm", ARMS)


@pytest.fixture
def gc_disabled():
    gc.disable()
    yield
    gc.enable()


def prove_full(world, kind="random", seed=1):
    proof.prove(world, [Load(make_routes(world, full(world), kind))], world.shape.capacity, seed)


@by_arm
@pytest.mark.parametrize("tokens", [(0, 8), (8, 0), (0, 0)], ids=lambda tokens: f"K20-T{tokens}")
def test_a_source_without_tokens_takes_part_and_collects_no_rows(arm, tokens):
    world = make_world("2A2F", arm=arm)
    round_ = exchange(world, make_routes(world, tokens))
    assert [y.shape for y in round_.collected] == [(count, 64) for count in tokens]
    proof.prove(world, [Load(make_routes(world, tokens))], 8, 20)


@by_arm
def test_one_empty_source_and_three_of_four_tokens_make_72_rows_on_one_ffn_rank(arm):
    """K22."""
    world = make_world("4A2F", arm=arm, top_k=6, num_experts=12)
    round_ = exchange(world, make_routes(world, [0, 4, 4, 4], "all-to-one"))
    assert [int(received.expert_offsets[-1]) for received in round_.received] == [72, 0]


@by_arm
def test_a_token_without_a_route_collects_zeros(arm):
    """K23."""
    world = make_world(arm=arm)
    ids = make_routes(world, full(world))
    ids[0][[0, 7, 15]] = -1
    round_ = exchange(world, ids)
    assert not round_.collected[0][[0, 7, 15]].view(np.uint16).any()
    assert round_.collected[0][1].view(np.uint16).any()


@by_arm
@pytest.mark.parametrize("lanes", [[0], [1, 2], [3], [0, 3], [0, 1, 2]], ids=lambda lanes: f"K23-lanes{lanes}")
@pytest.mark.parametrize("layout", ["2A2F", "5A1F"])
def test_lanes_without_a_route_are_left_out(layout, arm, lanes):
    world = make_world(layout, arm=arm)
    ids = make_routes(world, full(world))
    for each in ids:
        each[::2, lanes] = -1
    proof.prove(world, [Load(ids)], 16, 23)


@pytest.mark.parametrize("dtype", ["int16", "uint32", "float32", "uint64", "bool"], ids=lambda name: f"K24-{name}")
def test_ids_of_another_type_are_a_type_error_before_anything_is_sent(dtype):
    world = make_world()
    with pytest.raises(TypeError, match=f"expected int32 or int64.*received {dtype}") as error:
        world.sources[0].source_dispatch(reference.payload(2, 64, 0), np.zeros((2, 4), dtype))
    assert isinstance(error.value, IdTypeError)
    assert world.sources[0].pending is None


@by_arm
@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=["K24-int32", "K24-int64"])
def test_ids_of_both_widths_are_exact(arm, dtype):
    world = make_world(arm=arm)
    ids = [each.astype(dtype) for each in make_routes(world, full(world))]
    proof.prove(world, [Load(ids)], 16, 24)


@by_arm
@pytest.mark.parametrize("top_k", [1, 2, 6, 8, 9, 11, 12, 16, 22, 32], ids=lambda top_k: f"K29-K{top_k}")
def test_any_top_k_to_the_cap_is_exact(arm, top_k):
    prove_full(make_world("2A2F", arm=arm, top_k=top_k, num_experts=128))


def test_a_top_k_above_the_cap_names_the_cap():
    """K29."""
    with pytest.raises(ShapeError, match=r"top_k: expected 1..32, received 33\."):
        make_world(top_k=33, num_experts=128)


@by_arm
@pytest.mark.parametrize(
    "hidden",
    [128, 512, 2048, 2880, 3072, 3584, 4096, 5120, 6144, 7168, 8192],
    ids=lambda hidden: f"K31-H{hidden}",
)
def test_any_hidden_of_whole_granules_is_exact(arm, hidden):
    prove_full(make_world("2A2F", arm=arm, hidden=hidden, top_k=8, num_experts=32))


@by_arm
def test_a_hidden_of_broken_granules_is_refused_with_the_next_one(arm):
    """K31."""
    with pytest.raises(
        ShapeError, match=r"hidden: expected a multiple of .*, received 2049\.\nPad the rows to 20(56|64)"
    ):
        make_world(arm=arm, hidden=2049)


def test_rows_of_16_bytes_too_many_are_exact_in_afdep_and_refused_by_m2n():
    """K31."""
    prove_full(make_world(arm="afdep", hidden=136))
    with pytest.raises(ShapeError, match="multiple of 32 bytes"):
        make_world(arm="m2n", hidden=136)


@by_arm
@pytest.mark.parametrize("layout", ["1A1F", "2A1F", "3A1F", "1A3F", "3A2F", "5A3F"], ids=lambda layout: f"K32-{layout}")
def test_any_rank_counts_are_exact(arm, layout):
    prove_full(make_world(layout, arm=arm))


def test_experts_that_do_not_divide_name_both_numbers():
    """K32."""
    with pytest.raises(ShapeError, match="num_experts: expected a multiple of the 3 FFN ranks of 1A3F, received 128"):
        make_world("1A3F", num_experts=128)


@by_arm
@pytest.mark.parametrize("capacity", [1, 7, 100, 672, 2047, 2048], ids=lambda capacity: f"K33-cap{capacity}")
def test_any_capacity_is_exact_when_it_is_full(arm, capacity):
    prove_full(make_world("2A2F", arm=arm, capacity=capacity))


@by_arm
def test_all_tokens_to_one_expert_fit_between_the_guard_pages_at_every_capacity_to_256(arm):
    """K35."""
    for capacity in range(1, 257):
        world = make_world("3A1F", arm=arm, capacity=capacity)
        ids = np.full((capacity, 4), -1)
        ids[:, 2] = 5
        proof.prove(world, [Load([ids] * 3)], capacity, 35)


def test_sizes_beyond_32_bits_are_exact_numbers():
    """K38."""
    layout = Layout.parse("8A8F")
    record = window.dispatch_record_bytes(8192, "bf16", 8)
    assert window.registered_bytes(layout, 8192, "bf16", 8, 2**20, union=True) == 16 * record * 2**20 > 2**37
    world = make_world("4A1F", hidden=8192, top_k=32, num_experts=32, capacity=8192)
    assert world.registered_bytes == 8192 * 4 * window.dispatch_record_bytes(8192, "bf16", 32)


@by_arm
def test_a_group_that_no_memory_holds_is_a_memory_error(arm):
    """K38."""
    with pytest.raises(MemoryError, match=r"simulated memory: expected room.*\nA rank has 64 GiB") as error:
        make_world("24A1F", arm=arm, hidden=8192, top_k=32, num_experts=32, capacity=8192)
    assert isinstance(error.value, OutOfMemoryError)


def test_a_hundred_groups_leave_no_memory_and_no_file_behind(gc_disabled):
    """K39."""

    def used() -> tuple[int, int]:
        prove_full(make_world("2A2F", hidden=512, capacity=32))
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * mmap.PAGESIZE, len(list(Path("/proc/self/fd").iterdir()))

    memory, files = [used() for _ in range(3)][-1]
    for _ in range(100):
        used()
    assert used()[0] - memory < 20 * 2**20  # a group is 1 MB and more
    assert used()[1] == files


@by_arm
def test_a_source_that_stays_idle_for_a_hundred_exchanges_is_no_hang(arm):
    """K57."""
    world = make_world("2A1F", arm=arm)
    loads = [Load(make_routes(world, [16, 0], seed=seed)) for seed in range(100)]
    proof.prove(world, loads, 16, 57)


@by_arm
def test_rows_of_each_ffn_rank_are_those_of_all_sources_together(arm):
    """K58."""
    world = make_world("4A2F", arm=arm)
    ids = make_routes(world, [1, 16, 5, 9])
    received = exchange(world, ids).received
    counts = np.bincount(np.concatenate([each.ravel() for each in ids]), minlength=12).reshape(2, 6)
    assert [np.diff(rows.expert_offsets).tolist() for rows in received] == counts.tolist()
