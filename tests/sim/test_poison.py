"""A failed exchange leaves NaN behind its kernels, whatever the host does afterwards."""

import numpy as np
import pytest

from afdep import DeviceAssertion
from afdep.sim.group import Group
from tests.sim.exchanges import ARMS, full, make_routes, make_world, send

by_case = pytest.mark.parametrize(("arm", "layout"), [(arm, layout) for arm in ARMS for layout in ("2A2F", "2A1F")])


@pytest.fixture
def kernels_alone(monkeypatch):
    """The host of a simulated group poisons results too; that it does is tested elsewhere."""
    monkeypatch.setattr(Group, "deliver", lambda group, output: None)


def _collected(world, invalid):
    ids = make_routes(world, full(world))
    if invalid:
        ids[1][5, 3] = world.shape.num_experts
    send(world, ids)
    for ffn in world.ffns:
        received = ffn.ffn_receive()
        ffn.ffn_reply(received, world.expert_transform(ffn.rank))
    return [source.source_collect() for source in world.sources]


@by_case
@pytest.mark.parametrize("mode", ["check", "hunt"])
def test_every_result_of_a_failed_exchange_is_poisoned_by_the_kernels(kernels_alone, layout, arm, mode):
    world = make_world(layout, arm=arm, mode=mode)
    collected = _collected(world, invalid=True)
    with pytest.raises(DeviceAssertion):
        world.run()
    assert all(np.isnan(y.astype(np.float32)).all() for y in collected)


@by_case
def test_no_result_of_a_good_exchange_is_poisoned(kernels_alone, layout, arm):
    world = make_world(layout, arm=arm)
    collected = _collected(world, invalid=False)
    world.run()
    assert not any(np.isnan(y.astype(np.float32)).any() for y in collected)
