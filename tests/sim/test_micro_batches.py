"""Two Buffers on the same ranks carry exchanges that are in flight together; one Buffer refuses them."""

import numpy as np
import pytest

from afdep import DeadlockError, DeviceAssertion, OrderError, ShapeError, proof
from afdep.proof.interleaving import Flight
from afdep.routing import Load
from tests.sim.exchanges import ARMS, MACHINE, SMALL_SMS, changed_machine, full, make_routes, make_world, send

by_arm = pytest.mark.parametrize("arm", ARMS)
SECOND = {"hidden": 128, "top_k": 2, "capacity": 7}


def dispatch(flight, tokens, seed):
    load = Load(make_routes(flight.buffers, tokens, seed=seed))
    flight.dispatch(load, max(1, *tokens), seed)


def two(layout="2A2F", **changes):
    world = make_world(layout, **changes)
    return world, (Flight(world), Flight(world.add_buffers(**SECOND)))


@by_arm
def test_a_second_dispatch_on_one_buffer_is_out_of_order(arm):
    """K59."""
    world = make_world(arm=arm)
    send(world, make_routes(world, full(world)))
    with pytest.raises(OrderError, match=r"source_dispatch on rank 2: expected source_collect before it"):
        send(world, make_routes(world, [3, 5]))


@by_arm
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in-order", "reversed"])
def test_two_micro_batches_on_two_buffers_combine_in_either_order(arm, order):
    """K59."""
    world, flights = two(arm=arm)
    dispatch(flights[0], [16, 9], 1)
    dispatch(flights[1], [4, 7], 2)
    for index in order:
        flights[index].combine()
    world.run()
    for flight in flights:
        flight.check()


@by_arm
@pytest.mark.parametrize("layout", ["2A2F", "3A1F", "1A3F"])
@pytest.mark.parametrize("mode", ["check", "hunt"])
def test_calls_of_two_buffers_in_random_order_are_exact(mode, layout, arm):
    for seed in range(8):
        world, flights = two(layout, arm=arm, mode=mode, seed=seed, machine=SMALL_SMS)
        generator = np.random.default_rng(seed)
        for step in range(24):
            flight = flights[generator.integers(2)]
            sources = len(flight.buffers.sources)
            tokens = generator.integers(0, flight.buffers.shape.capacity + 1, sources).tolist()
            flight.combine() if flight.is_open else dispatch(flight, tokens, step)
            if generator.random() < 0.2:
                world.run()
        for flight in flights:
            if flight.is_open:
                flight.combine()
        world.run()
        for flight in flights:
            flight.check()


@by_arm
def test_two_arms_run_beside_each_other(arm):
    world = make_world(arm=arm)
    other = world.add_buffers(arm="m2n" if arm == "afdep" else "afdep", dispatch_dtype="fp8", hidden=128)
    flights = Flight(world), Flight(other)
    for flight in flights:
        dispatch(flight, [16, 5], 3)
    for flight in flights:
        flight.combine()
    world.run()
    for flight in flights:
        flight.check()


@by_arm
def test_exchanges_of_two_buffers_overlap_in_time(arm):
    world, flights = two(arm=arm, machine=MACHINE, transport_sms=24)
    for flight in flights:
        dispatch(flight, [7, 7], 1)
        flight.combine()
    world.run()
    spans = {}
    for kernel in world.simulator.take_trace():
        spans.setdefault((kernel.rank, kernel.buffers), []).append((kernel.start_us, kernel.end_us))
    for rank in range(4):
        (first, _), (_, last) = spans[rank, 0][0], spans[rank, 0][-1]
        assert first <= spans[rank, 1][0][0] < last


@by_arm
def test_buffers_that_fail_leave_the_others_alive(arm):
    world, (first, second) = two(arm=arm)
    dispatch(first, [16, 16], 1)
    first.combine()
    ids = make_routes(second.buffers, [7, 7])
    ids[0][2, 1] = 12
    send(second.buffers, ids)
    for ffn in second.buffers.ffns:
        ffn.ffn_receive()
    with pytest.raises(DeviceAssertion, match="expert_out_of_range"):
        world.run()
    first.check()
    assert (world.informed_ranks, second.buffers.informed_ranks) == ([], [0, 1, 2, 3])
    proof.prove(world, [Load(make_routes(world, full(world)))], 16, 2)


def test_graphs_of_two_buffers_replay_in_any_order():
    world, flights = two()
    graphs = []
    for flight in flights:
        with world.capture() as graph:
            dispatch(flight, [3, 7], 5)
            flight.combine()
        graphs.append(graph)
    for choice in np.random.default_rng(0).integers(2, size=20):
        graphs[choice].replay()
    world.run()
    for flight in flights:
        flight.check()


def test_buffers_of_other_ranks_than_the_world_has_are_refused():
    with pytest.raises(ShapeError, match="3 ranks, the world has 4"):
        make_world().add_buffers(layout="2A1F", num_experts=6)


def crossed(arm, transport_sms, layout="1A1F", **changes):
    """FFN ranks receive of the one while their reply to the other is due, which the sources await before they send."""
    world = make_world(
        layout, arm=arm, transport_sms=transport_sms, **{"machine": changed_machine(sm_count=8)} | changes
    )
    flights = Flight(world), Flight(world.add_buffers())
    for ffn in world.ffns:
        flights[0].buffers.delay(ffn.rank, 20)
    for source in world.sources:
        flights[0].buffers.delay(source.rank, 100)
    for seed, flight in enumerate(flights):
        dispatch(flight, full(world), seed)
    for ffn in world.ffns:
        flights[1].buffers.delay(ffn.rank, 60)
    for flight in flights:
        flight.combine()
    world.run()
    return flights


@pytest.mark.parametrize(("arm", "sms"), [("m2n", 5), ("m2n", 8), ("afdep", 8)])
def test_main_kernels_without_room_for_each_other_are_a_deadlock_that_is_named(arm, sms):
    with pytest.raises(DeadlockError) as error:
        crossed(arm, sms)
    waits = [(wait.rank, wait.kernel) for wait in error.value.waits if wait.wait == "SM slots"]
    assert waits == [(0, "combine"), (1, "dispatch")]


@pytest.mark.parametrize(("arm", "sms"), [("m2n", 4), ("afdep", 4), ("afdep", 7)])
def test_main_kernels_with_room_for_each_other_end_in_whatever_order_they_start(arm, sms):
    """A main kernel of the directed protocol waits in its first CTA alone."""
    for flight in crossed(arm, sms):
        flight.check()


@pytest.mark.parametrize("arm", ARMS)
def test_an_ffn_rank_that_awaits_rows_leaves_the_other_sms_to_other_kernels(arm):
    """Its copy epilogue, which takes all of shared memory, is not there yet."""
    flights = crossed(arm, transport_sms=3)
    trace = flights[0].buffers.simulator.take_trace()
    ended = {(kernel.name, kernel.buffers): kernel.end_us for kernel in trace if kernel.rank == 0}
    assert ended["expert_transform", 1] < ended["dispatch", 0]


LARGE = {"machine": MACHINE, "hidden": 2048, "capacity": 256}


@pytest.mark.parametrize(("arm", "layout"), [("m2n", "1A1F"), ("m2n", "2A2F"), ("afdep", "1A1F"), ("afdep", "2A2F")])
def test_two_buffers_have_room_on_a_machine_of_full_size(arm, layout):
    for flight in crossed(arm, 24, layout, **LARGE):
        flight.check()
