"""Counts of received rows on the host, for callers that size their work there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class HostCounts:
    """How many rows an FFN rank received.

    Args:
        rows: of each local expert, padding not counted.
    """

    rows: tuple[int, ...]

    @property
    def total(self) -> int:
        """Rows of all its experts."""
        return sum(self.rows)


class PendingCounts:
    """Counts on their way to pinned memory of their own: they belong to their exchange, whatever is received later.

    Args:
        counts: int32 [experts] on the GPU.
        stream: the stream that receives.
        check: raises what the exchange failed with, if it did.
    """

    def __init__(self, counts: Any, stream: Any, check: Callable[[], None]):
        self._host = torch.empty(counts.shape, dtype=torch.int32, pin_memory=True)
        self._arrived = torch.cuda.Event()
        self._check = check
        with torch.cuda.stream(stream):
            self._host.copy_(counts, non_blocking=True)
            self._arrived.record(stream)
        self._counts: HostCounts | None = None

    def get(self) -> HostCounts:
        """The counts, once they have arrived; waits for them."""
        if self._counts is None:
            self._arrived.synchronize()
            self._check()
            self._counts = HostCounts(tuple(int(rows) for rows in self._host.tolist()))
        return self._counts
