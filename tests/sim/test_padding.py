"""Memory full of NaN shows in no output, and padding holds zeros."""

import numpy as np
import pytest

from afdep import Load, proof
from afdep.dtypes import DISPATCH_DTYPES
from tests.sim.exchanges import ARMS, make_routes, make_world

ALIGNMENT = 16


def exchange_over_nan(world, seed):
    """Every rank's memory is full of NaN as the exchange begins."""
    sent = proof.draw(world, Load(make_routes(world, [7, 0, 16], seed=seed)), seed)
    world.poison(16)
    exchange = proof.enqueue(world, sent, 16)
    world.run()
    return exchange


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("dtype", sorted(DISPATCH_DTYPES), ids=lambda name: f"K62-{name}")
def test_outputs_over_nan_are_finite_and_exact(arm, dtype):
    world = make_world("3A2F", arm=arm, hidden=256, dispatch_dtype=dtype, expert_alignment=ALIGNMENT)
    for seed in range(4):
        exchange = exchange_over_nan(world, seed)
        assert all(np.isfinite(y.astype(np.float32)).all() for y in exchange.collected)
        proof.check(world, [exchange])


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("dtype", sorted(DISPATCH_DTYPES), ids=lambda name: f"K62-{name}")
def test_padding_over_nan_holds_zero_rows_scales_and_weights(arm, dtype):
    world = make_world("3A2F", arm=arm, hidden=256, dispatch_dtype=dtype, expert_alignment=ALIGNMENT)
    for rows in exchange_over_nan(world, 5).received:
        padding = np.flatnonzero(rows.source[:, 0] < 0)
        assert len(padding) > 0
        for memory in (rows.x, rows.weights, rows.scales):
            assert memory is None or not memory[padding].view(np.uint8).any()


def test_memory_that_an_exchange_does_not_fill_keeps_its_nan():
    """K62: what the two tests above look at was NaN before."""
    world = make_world("3A2F", expert_alignment=ALIGNMENT)
    rows = exchange_over_nan(world, 5).received[0]
    unused = rows.x[int(rows.expert_offsets[-1]) :]
    assert len(unused) > 0
    assert np.isnan(unused.astype(np.float32)).all()
