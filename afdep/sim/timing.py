"""What a group is timed on, and the round trips that its kernels' trace shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from afdep.sim.simulator import KernelTime


@dataclass(frozen=True)
class Timing:
    """Simulated round trips.

    Args:
        per_rank_us: for each rank, one figure per timed exchange: from the end of the exchange before to its own end.
        kernels: when every kernel ran, those of the warm-up before the timed ones.
    """

    per_rank_us: dict[int, list[float]]
    kernels: list[KernelTime]


def of_trace(trace: Sequence[KernelTime], num_exchanges: int) -> Timing:
    """The last `num_exchanges` round trips of a trace in order of completion, one more exchange before them."""
    ends: dict[int, dict[int, float]] = {}
    for kernel in trace:
        ends.setdefault(kernel.rank, {})[kernel.exchange] = kernel.end_us
    samples = {}
    for rank, by_exchange in sorted(ends.items()):
        times = [by_exchange[index] for index in sorted(by_exchange)][-num_exchanges - 1 :]
        samples[rank] = [after - before for before, after in pairwise(times)]
    return Timing(samples, list(trace))
