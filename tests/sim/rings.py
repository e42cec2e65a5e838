"""Cases that reuse slots of shared memory, as users reported them; a world of each and what its sources send."""

from typing import Any

import numpy as np

from afdep import Load, World
from tests.sim.exchanges import MACHINE, SMALL_SMS, full, make_routes, make_world


def pair_on_one_rank(layout: str, arm: str, tokens: int, **changes: Any) -> tuple[World, Load]:
    """The first source sends every token to experts 0 and 1, of one FFN rank; the others send no route."""
    shape = {"top_k": 2, "capacity": tokens, "arm": arm, "machine": SMALL_SMS}
    world = make_world(layout, **shape | changes)
    ids = [np.full((tokens, 2), -1) for _ in world.sources]
    ids[0][:] = [0, 1]
    return world, Load(ids)


def long_rows(arm: str, tokens: int, transport_sms: int, **changes: Any) -> tuple[World, Load]:
    """Rows of 7,168 elements, of which few fit an SM: each warp's slot takes many of the tokens in turn."""
    shape = {"hidden": 7168, "top_k": 2, "capacity": tokens, "arm": arm, "machine": MACHINE}
    world = make_world("1A1F", **shape | {"transport_sms": transport_sms} | changes)
    return world, Load(make_routes(world, full(world)))
