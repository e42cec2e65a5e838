"""Whatever the routes, an FFN rank counts exactly the ids that name its experts."""

import numpy as np
import pytest

from afdep import Load, Trace, proof, routing
from tests.sim.exchanges import ARMS, EXPERTS_PER_RANK, exchange, full, make_routes, make_world

by_arm = pytest.mark.parametrize("arm", ARMS)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Recorded ids of int16, a fifth of them missing, for two sources of 16 tokens."""
    ids = np.stack([routing.make("skew", 32, 2 * EXPERTS_PER_RANK, 4, step, zipf_exponent=0.5) for step in range(3)])
    ids[np.random.default_rng(0).random(ids.shape) < 0.2] = -1
    path = tmp_path_factory.mktemp("trace") / "ids.npy"
    np.save(path, ids.astype(np.int16))
    return Trace.load(path, 2 * EXPERTS_PER_RANK)


def routes(world, kind, trace):
    if kind == "trace":
        return [trace.replay(1, source, 16) for source in range(2)]
    return make_routes(world, full(world), kind)


@by_arm
@pytest.mark.parametrize("kind", [*routing.KINDS, "trace"])
def test_counts_are_the_histogram_of_the_ids(kind, arm, trace):
    world = make_world(arm=arm)
    ids = routes(world, kind, trace)
    done = exchange(world, ids)
    sent = np.concatenate(ids).ravel()
    histogram = np.bincount(sent[sent >= 0], minlength=world.shape.num_experts)
    assert np.array_equal(np.concatenate([np.diff(rows.expert_offsets) for rows in done.received]), histogram)
    source, token, lane = np.concatenate([rows.source for rows in done.received]).T
    named = np.stack(ids)[source - world.layout.ffn_ranks, token, lane]
    assert np.array_equal(named, np.repeat(np.arange(world.shape.num_experts), histogram))


@by_arm
@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_a_trace_is_replayed_exactly(dtype, arm, trace):
    world = make_world(arm=arm, hidden=320, dispatch_dtype=dtype)
    loads = [Load([trace.replay(step, source, 16) for source in range(2)]) for step in range(4)]
    proof.prove(world, loads, 16, seed=0)


def test_the_steps_of_a_trace_are_timed_as_their_ids(trace):
    def timing(steps):
        world = make_world(mode="time")
        return world.time_exchanges(
            [Load([trace.replay(step, source, 16) for source in range(2)]) for step in steps], 16
        )

    assert timing([0, 1, 2]) == timing([3, 4, 5]) != timing([2, 1, 0])
