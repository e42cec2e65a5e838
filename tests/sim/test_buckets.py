"""Ranks that pass different buckets for one exchange: the kernels notice before any record is read."""

import pytest

from afdep import BucketMismatchError
from afdep.group import Group
from tests.sim.exchanges import ARMS, full, make_routes, make_world, send


@pytest.fixture
def kernels_alone(monkeypatch):
    """The host of a simulated group sees all ranks and refuses first; hosts of ranks on GPUs do not."""
    monkeypatch.setattr(Group, "begin", lambda group, rank, bucket: None)


def _exchange_with(world, sent_with, received_with):
    send(world, make_routes(world, [count // 2 for count in full(world)]), bucket=sent_with)
    received = [ffn.ffn_receive(bucket=bucket) for ffn, bucket in zip(world.ffns, received_with, strict=True)]
    for ffn, rows in zip(world.ffns, received, strict=True):
        ffn.ffn_reply(rows, rows.x)
    for source in world.sources:
        source.source_collect()
    world.run()


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("received_with", [(16, 12), (8, 16)], ids=["smaller", "larger"])
def test_another_bucket_at_a_receiver_is_named_to_every_rank(arm, received_with, kernels_alone):
    world = make_world(arm=arm)
    with pytest.raises(BucketMismatchError) as caught:
        _exchange_with(world, received_with[0], received_with)
    passed = {caught.value.bucket, caught.value.received}
    assert passed == set(received_with)
    assert world.informed_ranks == [0, 1, 2, 3]


@pytest.mark.parametrize("arm", ARMS)
def test_one_bucket_everywhere_is_no_mismatch(arm, kernels_alone):
    _exchange_with(make_world(arm=arm), 12, (12, 12))
