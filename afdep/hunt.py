"""The hunt: exchanges under adversarial schedules, each drawn from a seed that replays exactly.

A hunt runs on a machine so small that rings wrap and several tokens share a warp: large shapes hide protocol bugs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from afdep import routing
from afdep.build import Fiber
from afdep.errors import AfdepError
from afdep.layout import Layout
from afdep.machine import Machine
from afdep.timing import Load
from afdep.world import World

_SMALL = {"sm_count": 4.0, "shared_bytes_per_cta": 2560.0, "shared_bytes_per_sm": 6144.0}
_ROUTINGS = ("random", "skew", "spread", "all-to-one")
_ZIPF_EXPONENT = 1.0


@dataclass(frozen=True)
class Hunt:
    """What a hunt exchanges. Each seed draws the schedule, the routes, the tokens of each source and the buckets.

    Args:
        arm: the arm hunted.
        layouts: one is drawn a seed.
        hidden, experts_per_rank, top_k, capacity, transport_sms: the small shape.
        exchanges: how many run free, one behind the other.
        fiber: as in World.
        library: a native library, by default the one of this tree.
    """

    arm: str
    layouts: tuple[str, ...] = ("2A2F", "3A1F", "1A2F")
    hidden: int = 64
    experts_per_rank: int = 6
    top_k: int = 4
    capacity: int = 32
    transport_sms: int = 3
    exchanges: int = 3
    fiber: Fiber = "warp"
    library: Path | None = None


@dataclass(frozen=True)
class Finding:
    """A seed that failed, with the error it ended in."""

    seed: int
    layout: str
    error: AfdepError

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.layout}): {type(self.error).__name__}: {str(self.error).splitlines()[0]}"


def small_machine(base: str = "h100-nvlink") -> Machine:
    """The machine of that name, with few SMs and little shared memory."""
    machine = Machine.load(base)
    table = tuple(replace(constant, value=_SMALL.get(constant.name, constant.value)) for constant in machine.table)
    return Machine(f"{base}, small", table)


def run_seed(hunt: Hunt, seed: int) -> Finding | None:
    """Run one seed: bit-exact, or a finding."""
    generator = np.random.default_rng(seed)
    layout = Layout.parse(hunt.layouts[int(generator.integers(len(hunt.layouts)))])
    world = World(
        layout,
        hidden=hunt.hidden,
        num_experts=hunt.experts_per_rank * layout.ffn_ranks,
        top_k=hunt.top_k,
        capacity=hunt.capacity,
        arm=hunt.arm,
        transport_sms=hunt.transport_sms,
        machine=small_machine(),
        mode="hunt",
        seed=seed,
        fiber=hunt.fiber,
        library=hunt.library,
    )
    loads = [_load(hunt, layout, generator) for _ in range(hunt.exchanges)]
    try:
        world.prove_loads(loads, hunt.capacity, seed)
    except AfdepError as error:
        return Finding(seed, str(layout), error)
    return None


def run_seeds(hunt: Hunt, seeds: Sequence[int]) -> Iterator[Finding]:
    """The findings of some seeds, as they come."""
    for seed in seeds:
        if finding := run_seed(hunt, seed):
            yield finding


def _load(hunt: Hunt, layout: Layout, generator: np.random.Generator) -> Load:
    bucket = int(generator.choice([hunt.capacity, hunt.capacity // 2, 3]))
    ids = [
        routing.make(
            kind := _ROUTINGS[int(generator.integers(len(_ROUTINGS)))],
            int(generator.choice([0, 1, bucket // 2, bucket, bucket])),
            hunt.experts_per_rank * layout.ffn_ranks,
            hunt.top_k,
            int(generator.integers(2**31)),
            zipf_exponent=_ZIPF_EXPONENT if kind == "skew" else None,
            num_ffn_ranks=layout.ffn_ranks if kind in ("spread", "all-to-one") else None,
        )
        for _ in range(layout.attention_ranks)
    ]
    return Load(ids, bucket)
