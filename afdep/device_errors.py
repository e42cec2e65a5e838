"""The errors of ranks on GPUs, beside those of `afdep.errors`."""

from collections.abc import Sequence

from afdep.errors import AfdepError


class DeviceError(AfdepError, RuntimeError):
    """CUDA refused a call of the native library.

    Args:
        reason: what it said.
    """

    def __init__(self, reason: str):
        super().__init__(
            f"device: expected the call to succeed, received: {reason}.",
            "Check the GPU's memory and that its architecture is sm_90; after a device fault start a new process.",
        )
        self.args = (reason,)
        self.reason = reason


class AgreementError(AfdepError, ValueError):
    """Ranks of one group were made differently. Every rank raises it, and nothing was exchanged.

    Args:
        field: what differs.
        values: its value at each rank, in order of rank.
    """

    def __init__(self, field: str, values: Sequence[object]):
        values = list(values)
        by_value: dict[str, list[int]] = {}
        for rank, value in enumerate(values):
            by_value.setdefault(repr(value), []).append(rank)
        shown = "; ".join(f"{value} at ranks {ranks}" for value, ranks in by_value.items())
        super().__init__(
            f"{field}: expected one value at all {len(values)} ranks, received {shown}.",
            "Make the Buffers of one group from one configuration and one native tree.",
        )
        self.args = (field, values)
        self.field = field
        self.values = values


class WaitTimeoutError(AfdepError, TimeoutError):
    """A device wait of a rank ended without what it waited for: a peer is not taking part.

    Args:
        rank: the rank that waited.
        wait: the name of the wait.
        peer: the rank waited for, or None where the wait is for all.
        expected: the value waited for.
        seen: the value seen last.
    """

    def __init__(self, rank: int, wait: str, peer: int | None, expected: int, seen: int):
        whom = "all ranks" if peer is None else f"rank {peer}"
        super().__init__(
            f"{wait} at rank {rank}: expected {whom} to arrive with {expected}, received {seen} until the time-out.",
            "Look at the rank that is missing; then build the Buffers of all ranks anew.",
        )
        self.args = (rank, wait, peer, expected, seen)
        self.rank = rank
        self.wait = wait
        self.peer = peer
        self.expected = expected
        self.seen = seen
