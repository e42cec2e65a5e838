"""What the ranks of one simulated group share: the simulator, the memory in use, and whether the group still lives."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep.errors import (
    AfdepError,
    BucketMismatchError,
    DeadBufferError,
    DeviceAssertion,
    OrderError,
    PeerRefusedError,
    ShapeError,
    TokenCountAssertion,
)
from afdep.shapes import ExchangeShape
from afdep.simulator import Simulator

FAILURES = {1: "expert_out_of_range", 2: "duplicate_expert"}
REFUSED = 3
_NUM_TOKENS, _OTHER_BUCKET = 4, 5


def reported(failure: int, rank: int, token: int, lane: int, expert: int) -> AfdepError:
    """What a rank's kernels reported, by its error record; -1s on a rank that was only told."""
    if failure == REFUSED:
        return PeerRefusedError(rank)
    if failure == _NUM_TOKENS:
        return TokenCountAssertion(rank, token, expert)
    if failure == _OTHER_BUCKET:
        found = (None, None, None) if token < 0 else (token, lane, expert)
        return BucketMismatchError(rank, *found)
    return DeviceAssertion(FAILURES[failure], rank, token, lane, expert)


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
        self._begun = [0] * shape.layout.num_ranks
        self._buckets: dict[int, tuple[int, int]] = {}
        self.runs = 0
        self.capturing = False

    def begin(self, rank: int, bucket: int) -> None:
        """A rank begins its next exchange, with the bucket that every rank passes for it.

        Raises:
            ShapeError: another rank passed another bucket for this exchange.
        """
        number = self._begun[rank]
        self._begun[rank] += 1
        first, agreed = self._buckets.setdefault(number, (rank, bucket))
        if agreed != bucket:
            expected = f"{agreed}, as rank {first} passed for exchange {number + 1}"
            raise ShapeError("bucket", expected, bucket, "All ranks pass the same sequence of buckets.")
        if min(self._begun) > number:
            del self._buckets[number]

    def run(self) -> None:
        """Run everything enqueued to its end; see `World.run`."""
        self.require_alive()
        self.require_no_capture("run")
        self.runs += 1
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

    def require_no_capture(self, call: str) -> None:
        """Refuse a call that makes no sense while a graph is captured.

        Raises:
            OrderError: a graph is being captured.
        """
        if self.capturing:
            raise OrderError(
                f"{call}: expected no capture under way, received {call} inside a `with world.capture()` block.",
                "Leave the block first: what it enqueues runs when its graph is replayed.",
            )

    def _poison_outputs(self) -> None:
        for output in self._outputs:
            output.view(np.uint8)[...] = 0xFF

    def _raise_abort(self) -> None:
        aborts = [self.simulator.abort(rank) for rank in self.informed_ranks]
        first = next((abort for abort in aborts if abort is not None), None)
        if first is None:
            return
        raise reported(first.failure, first.rank, first.token, first.lane, first.expert)
