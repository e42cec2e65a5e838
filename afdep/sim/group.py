"""What the Buffers of one exchange share: shape, agreement on calls, and whether they still live."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep.device_errors import PeerTimeoutError
from afdep.errors import AfdepError, DeadBufferError, ShapeError
from afdep.failure_codes import Failure, reported
from afdep.shapes import ExchangeShape
from afdep.sim.session import Session


class Group:
    """The Buffers of one exchange, one on every rank.

    Args:
        session: what they share with other Buffers on these ranks.
        shape: of their exchanges.
        handle: of their native state.
    """

    def __init__(self, session: Session, shape: ExchangeShape, handle: int):
        self.session = session
        self.simulator = session.simulator
        self.shape = shape
        self.handle = handle
        self.open_ranks: set[int] = set()
        self._outputs: list[NDArray[Any]] = []
        self._ended_by: str | None = None
        self._begun = [0] * shape.layout.num_ranks
        self._buckets: dict[int, tuple[int, int]] = {}
        session.join(self)

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
        self.open_ranks.add(rank)
        self.session.occupy([self])

    def settle(self) -> AfdepError | None:
        """After a run: the failure that ended these Buffers in it, if one did."""
        error = self._failure() if self._ended_by is None else None
        if error is not None:
            self.end(error)
        self._outputs.clear()
        return error

    def end(self, error: AfdepError) -> None:
        """These Buffers are dead: what the run was to fill holds NaN."""
        self._ended_by = self._ended_by or error.problem
        for output in self._outputs:
            output.view(np.uint8)[...] = 0xFF
        self._outputs.clear()

    @property
    def informed_ranks(self) -> list[int]:
        """Ranks that were told of a failure, in order."""
        ranks = range(self.shape.layout.num_ranks)
        return [rank for rank in ranks if self.simulator.abort(self.handle, rank) is not None]

    def deliver(self, output: NDArray[Any]) -> None:
        """Register what the next run fills: after a failure it holds NaN, and no result of an earlier one."""
        self._outputs.append(output)

    @contextmanager
    def refusing(self, rank: int) -> Iterator[None]:
        """A context in which an exception makes the rank tell its peers."""
        try:
            yield
        except Exception:
            self.simulator.native.refuse(self.handle, rank)
            raise

    def require_alive(self) -> None:
        """Raise DeadBufferError after a failure."""
        if self._ended_by is not None:
            raise DeadBufferError(self._ended_by)

    def _failure(self) -> AfdepError | None:
        aborts = [self.simulator.abort(self.handle, rank) for rank in range(self.shape.layout.num_ranks)]
        first = next((abort for abort in aborts if abort is not None), None)
        if first is None:
            return None
        if first.failure == Failure.timed_out:
            return PeerTimeoutError(first.rank, None)
        return reported(first.failure, first.rank, first.token, first.lane, first.expert)
