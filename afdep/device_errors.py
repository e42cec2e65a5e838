"""The errors of ranks on GPUs, beside those of `afdep.errors`."""

from collections.abc import Sequence

from afdep.errors import AfdepError


def _named(ranks: Sequence[int]) -> str:
    if not ranks:
        return "all ranks"
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {list(ranks)}"


class TorchMissingError(AfdepError, ImportError):
    """What runs on GPUs was asked for where torch is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "afdep.Buffer: expected torch to be installed, received no module of that name.",
            "Install the extra: pip install 'afdep-comm[torch]'. afdep.World runs all ranks on the CPU without it.",
        )
        self.args = ()


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
        missing: the ranks that had not arrived, at the end of the chain where peers wait for each other; none where
            that is not known.
        expected: the value waited for.
        seen: the value seen last.
        peer: the rank whose word it is, or None where the wait is for all.
    """

    def __init__(self, rank: int, wait: str, missing: Sequence[int], expected: int, seen: int, peer: int | None = None):
        awaited = missing if peer is None else [peer]
        chain = "" if list(awaited) == list(missing) else f"; {_named(awaited)} itself misses {_named(missing)}"
        super().__init__(
            f"{wait} at rank {rank}: expected {_named(awaited)} to arrive with {expected}, "
            f"received {seen} until the time-out{chain}.",
            "Look at the rank that is missing; then build the Buffers of all ranks anew.",
        )
        self.args = (rank, wait, missing, expected, seen, peer)
        self.rank = rank
        self.wait = wait
        self.missing = tuple(missing)
        self.expected = expected
        self.seen = seen
        self.peer = peer


class PeerTimeoutError(AfdepError, TimeoutError):
    """A device wait of another rank timed out; that rank gave up the exchange and told this one.

    Args:
        rank: the rank that waited.
        peer: the rank that is missing, at the end of the chain where peers wait for each other, or None where the wait
            is for all.
    """

    def __init__(self, rank: int, peer: int | None):
        waited = f"it waited in vain and misses {_named([] if peer is None else [peer])}"
        super().__init__(
            f"exchange: expected every rank to take part, received from rank {rank} that {waited}.",
            "Look at the rank that is missing; then build the Buffers of all ranks anew.",
        )
        self.args = (rank, peer)
        self.rank = rank
        self.peer = peer


class CaptureError(AfdepError, RuntimeError):
    """A call that cannot be part of a CUDA graph, made while the current stream is captured. The capture goes on.

    Args:
        call: the call.
        next_step: what to do instead.
    """

    def __init__(self, call: str, next_step: str):
        super().__init__(f"{call}: expected no graph capture on the current stream, received one.", next_step)
        self.args = (call, next_step)
        self.call = call
