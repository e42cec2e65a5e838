"""What an earlier exchange left behind is never taken for this one's, however alike the two are."""

import numpy as np
import pytest

from afdep import Load
from tests.sim.exchanges import ARMS, SMALL_SMS, make_routes, make_world

by_arm = pytest.mark.parametrize("arm", ARMS)


@by_arm
def test_a_thousand_exchanges_of_two_buckets_in_random_order_are_exact(arm):
    """K1. Rows of 64 elements: the words that could be mistaken are those of any size."""
    world = make_world("2A2F", arm=arm, capacity=128, machine=SMALL_SMS)
    order = np.random.default_rng(1).permutation([8, 128] * 500)
    for first in range(0, len(order), 100):
        buckets = enumerate(map(int, order[first : first + 100]), first)
        loads = [Load(make_routes(world, [bucket] * 2, seed=number), bucket) for number, bucket in buckets]
        world.prove_loads(loads, 128, first)
