"""Registered memory is what the formulas say; simulated memory is guarded, and lives as long as an array on it."""

import gc
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afdep import DeadBufferError, DeviceAssertion, Load, MemoryFaultError, proof, reference, window
from afdep.dtypes import DISPATCH_DTYPES
from tests.sim.exchanges import ARMS, exchange, full, make_routes, make_world

by_arm = pytest.mark.parametrize("arm", ARMS)
MAIN_TABLE = {"hidden": 2048, "num_experts": 96, "top_k": 8, "capacity": 2048}


@settings(max_examples=120, deadline=None)
@given(
    arm=st.sampled_from(["m2n", "afdep", "afdep[AFDEP_UNION_BUFFERS=1]"]),
    attention_ranks=st.integers(1, 8),
    ffn_ranks=st.integers(1, 8),
    hidden=st.integers(1, 256).map(lambda granules: granules * 32),
    dtype=st.sampled_from(sorted(DISPATCH_DTYPES)),
    top_k=st.integers(1, 32),
    capacity=st.integers(1, 512),
)
def test_the_library_registers_what_the_formula_says(arm, attention_ranks, ffn_ranks, hidden, dtype, top_k, capacity):
    shape = {"hidden": hidden, "top_k": top_k, "capacity": capacity}
    world = make_world(
        f"{attention_ranks}A{ffn_ranks}F", arm=arm, num_experts=4 * ffn_ranks, dispatch_dtype=dtype, **shape
    )
    union = arm != "afdep"
    assert world.registered_bytes == window.registered_bytes(world.layout, dtype=dtype, union=union, **shape)


@pytest.mark.parametrize(
    ("layout", "arm", "megabytes"),
    [("2A2F", "m2n", 34.6), ("2A2F", "afdep", 17.3), ("3A1F", "afdep", 26.0), ("1A3F", "afdep", 25.6)],
)
def test_the_published_megabytes_are_registered(layout, arm, megabytes):
    assert round(make_world(layout, arm=arm, **MAIN_TABLE).registered_bytes / 1e6, 1) == megabytes


@by_arm
def test_a_kernel_that_reads_past_its_memory_is_stopped_and_named(arm):
    world = make_world("1A1F", arm=arm)
    world.sources[0].source_dispatch(reference.payload(16, 64, 0), make_routes(world, [16])[0])
    received = world.ffns[0].ffn_receive()
    world.ffns[0].ffn_reply(received, received.x[-1:])
    world.sources[0].source_collect()
    with pytest.raises(MemoryFaultError, match=r"of rank 0 lie outside.*\(rank 0, kernel combine, CTA \d, warp \d+\)"):
        world.run()
    with pytest.raises(DeadBufferError, match="simulated memory"):
        world.run()


@by_arm
def test_arrays_outlive_their_world(arm):
    world = make_world(arm=arm)
    round_ = exchange(world, make_routes(world, full(world)))
    alive = weakref.ref(world)
    rows = [received.x[: received.expert_offsets[-1]] for received in round_.received]
    before = [each.copy() for each in (*round_.collected, *rows)]
    del world
    assert alive() is None
    gc.collect()
    assert all(np.array_equal(now, then) for now, then in zip((*round_.collected, *rows), before, strict=True))


@by_arm
@pytest.mark.parametrize("fails", [False, True], ids=["live", "failed"])
def test_a_world_is_freed_without_the_garbage_collector(arm, fails):
    gc.disable()
    world = make_world(arm=arm)
    ids = make_routes(world, full(world))
    ids[0][0, 0] = 99 if fails else -1
    with pytest.raises(DeviceAssertion) if fails else nullcontext():
        proof.prove(world, [Load(ids)], 16, 1)
    simulator = weakref.ref(world.simulator)
    del world
    gc.enable()
    assert simulator() is None


@by_arm
def test_memory_of_one_group_is_not_taken_for_anothers(arm):
    first, second = make_world("1A1F", arm=arm), make_world("1A1F", arm=arm)
    ids = make_routes(first, [16])
    rows = exchange(first, ids).received[0].x
    second.sources[0].source_dispatch(reference.payload(16, 64, 1), ids[0])
    received = second.ffns[0].ffn_receive()
    second.run()
    second.ffns[0].ffn_reply(received, rows)
    collected = second.sources[0].source_collect()
    second.run()
    assert np.isfinite(collected.astype(np.float32)).all()
