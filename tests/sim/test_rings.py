"""Slots of shared memory that are used again hold what the copy out of them needs, until it has read them."""

import pytest

from afdep import proof
from tests.sim.exchanges import ARMS
from tests.sim.rings import long_rows, pair_on_one_rank


@pytest.mark.parametrize(("layout", "arm"), [("2A2F", "m2n"), ("2A2F", "afdep"), ("2A1F", "afdep")])
@pytest.mark.parametrize(("tokens", "seeds"), [(256, 100), (1024, 20)], ids=["K3-T256", "K3-T1024"])
def test_replies_of_two_rows_are_exact_under_every_schedule(layout, arm, tokens, seeds):
    for seed in range(seeds):
        world, load = pair_on_one_rank(layout, arm, tokens, mode="hunt", seed=seed)
        proof.prove(world, [load] * 10, tokens, seed)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("sms", [1, 2, 7, 23, 24], ids=lambda sms: f"K4-{sms}sms")
def test_2048_long_rows_through_few_slots_are_exact(arm, sms):
    world, load = long_rows(arm, 2048, sms)
    proof.prove(world, [load], 2048, sms)


@pytest.mark.parametrize("arm", ARMS)
def test_long_rows_through_few_slots_are_exact_under_every_schedule(arm):
    """K4."""
    for seed in range(6):
        world, load = long_rows(arm, 64, 1, mode="hunt", seed=seed)
        proof.prove(world, [load] * 2, 64, seed)
