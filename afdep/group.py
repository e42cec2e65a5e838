"""What the ranks of one simulated group share: the simulator, the memory in use, and whether the group still lives."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep.errors import AfdepError, DeadBufferError, DeviceAssertion, PeerRefusedError
from afdep.shapes import ExchangeShape
from afdep.simulator import Simulator

FAILURES = {1: "expert_out_of_range", 2: "duplicate_expert"}
REFUSED = 3


class Group:
    """One group of simulated ranks.

    Args:
        simulator: its memory and kernels.
        shape: of its exchanges.
    """

    def __init__(self, simulator: Simulator, shape: ExchangeShape):
        self.simulator = simulator
        self.shape = shape
        self._held: list[object] = []
        self._outputs: list[NDArray[Any]] = []
        self._ended_by: str | None = None

    def run(self) -> None:
        """Run everything enqueued to its end; see `World.run`."""
        self.require_alive()
        try:
            self.simulator.run()
            self._raise_abort()
        except AfdepError as error:
            self._ended_by = error.problem
            self._poison_outputs()
            raise
        finally:
            self._held.clear()
            self._outputs.clear()

    @property
    def informed_ranks(self) -> list[int]:
        """Ranks that were told of a failure, in order."""
        return [rank for rank in range(self.shape.layout.num_ranks) if self.simulator.abort(rank) is not None]

    def hold(self, memory: Sequence[object]) -> None:
        """Keep memory until the kernels that use it are done."""
        self._held.extend(memory)

    def deliver(self, output: NDArray[Any]) -> None:
        """Register what the next run fills: after a failure it holds NaN, and no result of an earlier one."""
        self._outputs.append(output)

    def captured(self) -> list[object]:
        """The memory in use by what was enqueued since the last run, given up to the caller."""
        held, self._held = self._held, []
        return held

    def owns(self, rank: int, address: int) -> bool:
        """Whether the address is simulated memory of the rank."""
        return bool(self.simulator.native.sim_owner(self.simulator.handle, address) == rank)

    @contextmanager
    def refusing(self, rank: int) -> Iterator[None]:
        """A context in which an exception makes the rank tell its peers."""
        try:
            yield
        except Exception:
            self.simulator.native.refuse(self.simulator.handle, rank)
            raise

    def require_alive(self) -> None:
        """Raise DeadBufferError after a failure."""
        if self._ended_by is not None:
            raise DeadBufferError(self._ended_by)

    def _poison_outputs(self) -> None:
        for output in self._outputs:
            output.view(np.uint8)[...] = 0xFF

    def _raise_abort(self) -> None:
        aborts = [self.simulator.abort(rank) for rank in self.informed_ranks]
        first = next((abort for abort in aborts if abort is not None), None)
        if first is None:
            return
        if first.failure == REFUSED:
            raise PeerRefusedError(first.rank)
        raise DeviceAssertion(FAILURES[first.failure], first.rank, first.token, first.lane, first.expert)
