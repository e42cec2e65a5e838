"""What an earlier exchange left behind is never taken for this one's, however alike the two are."""

import numpy as np
import pytest

from afdep import Load, proof, reference
from afdep.reference import BF16
from tests.sim.exchanges import ARMS, SMALL_SMS, make_routes, make_world

STEPS, STEPS_A_RUN = 5000, 250

by_arm = pytest.mark.parametrize("arm", ARMS)


@by_arm
def test_a_thousand_exchanges_of_two_buckets_in_random_order_are_exact(arm):
    """K1. Rows of 64 elements: the words that could be mistaken are those of any size."""
    world = make_world("2A2F", arm=arm, capacity=128, machine=SMALL_SMS)
    order = np.random.default_rng(1).permutation([8, 128] * 500)
    for first in range(0, len(order), 100):
        buckets = enumerate(map(int, order[first : first + 100]), first)
        loads = [Load(make_routes(world, [bucket] * 2, seed=number), bucket) for number, bucket in buckets]
        proof.prove(world, loads, 128, first)


def numbered(step, tokens):
    """Rows that say which step they are of, in numbers that BF16 holds exactly."""
    x = np.zeros((tokens, 64), BF16)
    x[:, 0], x[:, 1] = divmod(step, 128)
    x[:, 2:] = reference.payload(tokens, 62, step)
    return x


def enqueue_step(world, step, ids, generator):
    """One exchange, before either half of which a rank drawn at random is late."""
    late = [(int(generator.integers(3)), float(generator.uniform(0, 500))) for _ in range(2)]
    world.delay(*late[0])
    sent = [reference.Sent(numbered(step, len(each)), each) for each in ids]
    for source, one in zip(world.sources, sent, strict=True):
        source.source_dispatch(one.x, one.topk_idx)
    received = world.ffns[0].ffn_receive()
    world.delay(*late[1])
    world.ffns[0].ffn_reply(received, world.expert_transform(0))
    return proof.Exchange(sent, [received], [source.source_collect() for source in world.sources])


@by_arm
def test_5000_steps_of_the_same_routes_never_deliver_a_row_of_another_step(arm):
    """K2."""
    world = make_world("2A1F", arm=arm, capacity=3, num_experts=4, top_k=2, transport_sms=2, machine=SMALL_SMS)
    ids, generator = make_routes(world, [3, 2]), np.random.default_rng(2)
    for first in range(0, STEPS, STEPS_A_RUN):
        steps = [enqueue_step(world, first + step, ids, generator) for step in range(STEPS_A_RUN)]
        world.run()
        proof.check(world, steps)
