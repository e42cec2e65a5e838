"""The hunt: exchanges under adversarial schedules, each drawn from a seed that replays exactly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from afdep.errors import AfdepError
from afdep.machine import Machine
from afdep.proof import aborts, graphs, scenario
from afdep.proof.exchanges import prove
from afdep.proof.interleaving import prove_interleaved
from afdep.proof.scenario import Hunt, Scenario
from afdep.sim.simulator import KernelTime
from afdep.sim.world import World

_SMALL = {"sm_count": 4.0, "shared_bytes_per_cta": 2560.0, "shared_bytes_per_sm": 6144.0}


@dataclass(frozen=True)
class Finding:
    """A seed that failed.

    Args:
        seed: it replays exactly.
        scenario: what it exchanged.
        error: what it ended in.
        kernels: those that completed, in order of completion.
    """

    seed: int
    scenario: Scenario
    error: AfdepError
    kernels: tuple[KernelTime, ...]

    def __str__(self) -> str:
        where = "".join(f", {note}" for note in getattr(self.error, "__notes__", []))
        name = type(self.error).__name__
        return f"seed {self.seed} ({self.scenario}{where}): {name}: {str(self.error).splitlines()[0]}"


@cache
def small_machine(base: str = "h100-nvlink") -> Machine:
    """The machine of that name, with few SMs and little shared memory."""
    machine = Machine.load(base)
    table = tuple(replace(constant, value=_SMALL.get(constant.name, constant.value)) for constant in machine.table)
    return Machine(f"{base}, small", table)


def run_seed(hunt: Hunt, seed: int) -> Finding | None:
    """Run one seed: bit-exact, and where a rank gives up no wrong result that nobody is warned of; or a finding."""
    drawn = scenario.draw(hunt, seed)
    world = world_of(hunt, drawn, seed)
    try:
        if drawn.abort is not None:
            aborts.prove(world, drawn.rounds[0], drawn.abort, seed, drawn.replayed)
        elif drawn.replayed:
            graphs.prove_replays(world, drawn.rounds, hunt.capacity, seed)
        elif second := drawn.second:
            other = world.add_buffers(hidden=second.hidden, top_k=second.top_k, capacity=second.capacity)
            prove_interleaved([world, other], [drawn.rounds[0], second.loads], second.order, seed)
        else:
            prove(world, drawn.rounds[0], hunt.capacity, seed)
    except AfdepError as error:
        return Finding(seed, drawn, error, tuple(world.simulator.take_trace()))
    return None


def run_seeds(hunt: Hunt, seeds: Sequence[int]) -> Iterator[Finding]:
    """The findings of some seeds, as they come."""
    for seed in seeds:
        if finding := run_seed(hunt, seed):
            yield finding


def world_of(hunt: Hunt, drawn: Scenario, seed: int) -> World:
    """The World that a seed runs in."""
    return World(
        drawn.layout,
        hidden=hunt.hidden,
        num_experts=hunt.experts_per_rank * drawn.layout.ffn_ranks,
        top_k=hunt.top_k,
        capacity=hunt.capacity,
        arm=drawn.arm,
        dispatch_dtype=hunt.dtype,
        transport_sms=hunt.transport_sms,
        machine=small_machine(),
        mode="hunt",
        seed=seed,
        fiber=hunt.fiber,
        library=hunt.library,
    )
