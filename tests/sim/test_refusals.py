"""Calls that would break memory, order or agreement are refused where they are made."""

import numpy as np
import pytest

from afdep import BuildError, Load, OrderError, PeerRefusedError, ShapeError, World, proof, reference, routing
from afdep.errors import CapacityError


def small_world(layout="1A1F", **changes):
    shape = {"hidden": 64, "num_experts": 4, "top_k": 2, "capacity": 8, "transport_sms": 2}
    return World(layout, **shape | changes)


def send(world, tokens=4, bucket=8):
    for source in world.sources:
        x, ids = reference.payload(tokens, 64, 1), routing.make("random", tokens, 4, 2, 1)
        source.source_dispatch(x, ids, bucket=bucket)


@pytest.mark.parametrize("rank", [-1, 2, 99])
def test_a_rank_outside_the_group_is_refused(rank):
    world = small_world()
    for call in (lambda: world.empty(rank, (1,), np.int32), lambda: world.buffer(rank)):
        with pytest.raises(ShapeError, match=r"rank: expected 0\.\.1"):
            call()


@pytest.mark.parametrize(("bucket", "error"), [(-1, ShapeError), (0, ShapeError), (1 << 20, CapacityError)])
def test_poison_of_no_bucket_is_refused(bucket, error):
    with pytest.raises(error, match=r"bucket|capacity"):
        small_world().poison(bucket)


def test_a_proof_of_nothing_is_refused():
    with pytest.raises(ShapeError, match="exchanges: expected 1 or more"):
        proof.prove(small_world(), [], 8, 0)


@pytest.mark.parametrize("change", [{"fiber": "lane"}, {"seed": -1}, {"seed": 2**64}], ids=str)
def test_a_setting_that_would_be_taken_for_another_is_refused(change):
    with pytest.raises(ShapeError, match=next(iter(change))):
        small_world(**change)


def test_a_file_that_is_no_library_of_this_tree_is_refused(tmp_path):
    with pytest.raises(BuildError, match="native library"):
        small_world(library=tmp_path / "nope.so")


def test_captures_do_not_nest():
    world = small_world()
    with world.capture(), pytest.raises(OrderError, match="capture"), world.capture():
        pass


def test_nothing_runs_inside_a_capture():
    world = small_world()
    with world.capture(), pytest.raises(OrderError, match="run: expected no capture"):
        world.run()


def test_nothing_is_proved_inside_a_capture():
    world = small_world()
    with world.capture(), pytest.raises(OrderError, match="expected no capture"):
        proof.prove(world, [Load([np.zeros((1, 2), np.int64)])], 8, 0)


def test_half_an_exchange_is_not_captured():
    world = small_world()
    capture = world.capture()
    capture.__enter__()
    send(world)
    with pytest.raises(OrderError, match=r"no open exchange at its end, received one on rank 1"):
        capture.__exit__(None, None, None)


def test_ranks_that_pass_different_buckets_are_told_so():
    world = small_world("2A1F")
    send(world, bucket=8)
    with pytest.raises(ShapeError, match=r"bucket: expected 8, as rank 1 passed for exchange 1, received 4"):
        world.ffns[0].ffn_receive(bucket=4)
    with pytest.raises(PeerRefusedError, match="rank 0"):
        world.run()


def test_a_reply_made_before_anything_arrived_is_refused():
    world = small_world()
    send(world)
    received = world.ffns[0].ffn_receive(bucket=8)
    with pytest.raises(OrderError, match="receive, run, compute, reply"):
        world.ffns[0].ffn_reply(received, np.array(received.x))


def test_a_reply_of_fewer_rows_than_arrived_is_refused():
    world = small_world()
    send(world)
    received = world.ffns[0].ffn_receive(bucket=8)
    world.run()
    with pytest.raises(ShapeError, match="out: expected 8 rows or more, received 1"):
        world.ffns[0].ffn_reply(received, np.array(received.x[:1]))


def test_numpy_integers_are_integers():
    world = small_world(hidden=np.int64(64))
    send(world, bucket=np.int64(8))
    assert world.ffns[0].ffn_receive(bucket=np.int32(8)).x.shape[1] == 64
