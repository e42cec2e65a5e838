"""Ranks that pass different buckets for one exchange: the kernels notice before any record is read."""

import pytest

from afdep import BucketMismatchError
from afdep.sim.group import Group
from tests.sim.exchanges import ARMS, full, make_routes, make_world, send


@pytest.fixture
def kernels_alone(monkeypatch):
    """The host of a simulated group sees all ranks and refuses first; hosts of ranks on GPUs do not."""
    monkeypatch.setattr(Group, "begin", lambda group, rank, bucket: None)


def _exchange(world, sent_with, received_with):
    """Every call of an exchange; what the FFN ranks receive in it."""
    send(world, make_routes(world, [count // 2 for count in full(world)]), bucket=sent_with)
    received = [ffn.ffn_receive(bucket=bucket) for ffn, bucket in zip(world.ffns, received_with, strict=True)]
    for ffn, rows in zip(world.ffns, received, strict=True):
        ffn.ffn_reply(rows, rows.x)
    for source in world.sources:
        source.source_collect()
    return received


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("received_with", [(16, 12), (8, 16)], ids=["smaller", "larger"])
def test_another_bucket_at_a_receiver_is_named_to_every_rank(arm, received_with, kernels_alone):
    world = make_world(arm=arm)
    _exchange(world, received_with[0], received_with)
    with pytest.raises(BucketMismatchError) as caught:
        world.run()
    passed = {caught.value.bucket, caught.value.received}
    assert passed == set(received_with)
    assert world.informed_ranks == [0, 1, 2, 3]


@pytest.mark.parametrize("arm", ARMS)
def test_a_receiver_of_another_bucket_has_no_rows_for_whoever_follows_its_offsets(arm, kernels_alone):
    world = make_world(arm=arm)
    received = _exchange(world, 16, (8, 8))
    with pytest.raises(BucketMismatchError):
        world.run()
    assert [rows.expert_offsets.tolist() for rows in received] == [[0] * 7, [0] * 7]


@pytest.mark.parametrize("arm", ARMS)
def test_one_bucket_everywhere_is_no_mismatch(arm, kernels_alone):
    world = make_world(arm=arm)
    received = _exchange(world, 12, (12, 12))
    world.run()
    assert all(rows.expert_offsets[-1] > 0 for rows in received)
