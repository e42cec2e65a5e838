"""Graphs of the simulator: captured once, replayed on inputs that change in place."""

from itertools import pairwise

import numpy as np
import pytest

import afdep
from afdep import World, reference, routing
from afdep.proof import checks
from afdep.reference import BF16

TOKENS, HIDDEN, EXPERTS, TOP_K = 12, 128, 8, 4


def small_world(arm: str) -> World:
    return World("2A2F", hidden=HIDDEN, num_experts=EXPERTS, top_k=TOP_K, capacity=16, arm=arm, transport_sms=3)


class Captured:
    """An exchange on arrays of the ranks, captured with its FFN stand-in."""

    def __init__(self, world: World, bucket: int = 16):
        sources = world.sources
        self.world, self.bucket = world, bucket
        self.x = [world.empty(source.rank, (TOKENS, HIDDEN), BF16) for source in sources]
        self.ids = [world.empty(source.rank, (TOKENS, TOP_K), np.int64) for source in sources]
        with world.capture() as self.graph:
            self.y = self.exchange()

    def exchange(self):
        for source, x, ids in zip(self.world.sources, self.x, self.ids, strict=True):
            source.source_dispatch(x, ids, bucket=self.bucket)
        for ffn in self.world.ffns:
            received = ffn.ffn_receive(bucket=self.bucket)
            ffn.ffn_reply(received, self.world.expert_transform(ffn.rank))
        return [source.source_collect() for source in self.world.sources]

    def change_inputs(self, seed: int) -> None:
        for index, (x, ids) in enumerate(zip(self.x, self.ids, strict=True)):
            x[...] = reference.payload(TOKENS, HIDDEN, seed * 8 + index)
            ids[...] = routing.make("random", TOKENS, EXPERTS, TOP_K, seed * 8 + index)

    def check(self) -> None:
        for rank, (x, ids, y) in enumerate(zip(self.x, self.ids, self.y, strict=True), start=2):
            checks.check_collected(y, reference.combine(x, ids, num_ffn_ranks=2, num_experts=EXPERTS), rank=rank)


def test_work_enqueued_before_a_capture_keeps_its_memory_and_runs_after_it():
    world = small_world("afdep")
    rows = [reference.payload(TOKENS, HIDDEN, seed) for seed in range(2)]
    routes = [routing.make("random", TOKENS, EXPERTS, TOP_K, seed) for seed in range(2)]
    for source, x, ids in zip(world.sources, rows, routes, strict=True):
        source.source_dispatch(x, ids, bucket=16)
    for ffn in world.ffns:
        ffn.ffn_reply(ffn.ffn_receive(bucket=16), world.expert_transform(ffn.rank))
    collected = [source.source_collect() for source in world.sources]
    Captured(world)
    blocks = [world.empty(source.rank, (TOKENS, HIDDEN), BF16) for source in world.sources for _ in range(8)]
    for block in blocks:
        block[...] = 0
    world.run()
    for rank, (x, ids, y) in enumerate(zip(rows, routes, collected, strict=True), start=2):
        checks.check_collected(y, reference.combine(x, ids, num_ffn_ranks=2, num_experts=EXPERTS), rank=rank)


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
def test_replays_follow_inputs_changed_in_place(arm):
    captured = Captured(small_world(arm))
    for seed in range(20):
        captured.change_inputs(seed)
        captured.graph.replay()
        captured.world.run()
        captured.check()


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
def test_two_graphs_of_different_buckets_on_one_world_replay_in_any_order(arm):
    world = small_world(arm)
    graphs = [Captured(world, bucket) for bucket in (12, 16)]
    for seed, choice in enumerate(np.random.default_rng(0).integers(2, size=40)):
        graphs[choice].change_inputs(seed)
        graphs[choice].graph.replay()
        world.run()
        graphs[choice].check()


def test_replays_enqueued_together_run_one_behind_the_other():
    captured = Captured(small_world("afdep"))
    captured.change_inputs(1)
    for _ in range(5):
        captured.graph.replay()
    captured.world.run()
    captured.check()
    trace = captured.world.simulator.take_trace()
    dispatches = [kernel for kernel in trace if (kernel.rank, kernel.name) == (0, "dispatch")]
    assert len(dispatches) == 5
    assert all(before.end_us < after.start_us for before, after in pairwise(dispatches))


def test_nothing_runs_while_a_graph_is_captured():
    captured = Captured(small_world("afdep"))
    captured.world.run()
    assert captured.world.simulator.take_trace() == []


def test_a_graph_cannot_be_replayed_inside_its_own_capture():
    world = small_world("afdep")
    with pytest.raises(afdep.OrderError, match="Leave the"), world.capture() as graph:
        graph.replay()


@pytest.mark.parametrize("arm", ["m2n", "afdep"])
@pytest.mark.parametrize(
    ("expert", "name"),
    [*((id_, "expert_out_of_range") for id_ in (EXPERTS, 2**31 - 1, -2)), (None, "duplicate_expert")],
)
def test_an_invalid_route_that_a_replay_reads_is_named(arm, expert, name):
    """K27."""
    captured = Captured(small_world(arm))
    captured.change_inputs(1)
    captured.ids[1][3, 1] = captured.ids[1][3, 0] if expert is None else expert
    captured.graph.replay()
    with pytest.raises(afdep.DeviceAssertion) as error:
        captured.world.run()
    assert (error.value.name, error.value.rank, error.value.token, error.value.lane) == (name, 3, 3, 1)


def test_outputs_of_a_failed_exchange_hold_no_result():
    captured = Captured(small_world("afdep"))
    captured.change_inputs(1)
    captured.ids[0][3, 1] = EXPERTS
    y = captured.exchange()
    with pytest.raises(afdep.DeviceAssertion):
        captured.world.run()
    assert all(np.isnan(one.astype(np.float32)).all() for one in y)
