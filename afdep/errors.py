"""The errors of `afdep`: one class per cause, the data as fields, the text in two lines.

The first line says what is wrong, what was expected and what was received; the second says what to do next.
"""

from collections.abc import Sequence
from difflib import get_close_matches


def choices(received: object, valid: Sequence[str]) -> str:
    """The list of valid names as one phrase, led by the closest one to `received`."""
    close = get_close_matches(str(received), valid, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    return f"{suggestion}Valid: {', '.join(valid)}."


class AfdepError(Exception):
    """Base of every error of this package.

    Args:
        problem: the thing, what was expected and what was received, in one line.
        next_step: what the reader can do about it, in one line.
    """

    def __init__(self, problem: str, next_step: str):
        super().__init__(problem, next_step)
        self.problem = problem
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.problem}\n{self.next_step}"


class LayoutError(AfdepError, ValueError):
    """A layout that cannot be read, or that no protocol can run."""


class ArmError(AfdepError, ValueError):
    """An arm that is not one of those built here."""


class ControlError(AfdepError, ValueError):
    """An unknown control, or a control with a value other than 0 or 1."""


class RoutingError(AfdepError, ValueError):
    """A routing that cannot be generated from its arguments."""


class MachineError(AfdepError, ValueError):
    """A machine description that is missing, incomplete or not understood."""


class BuildError(AfdepError, RuntimeError):
    """The native library could not be built or loaded."""


class DigestError(AfdepError, ValueError):
    """A native digest that is not written as one, or that is not the expected one."""


class OrderError(AfdepError, RuntimeError):
    """A call outside the order dispatch, receive, reply, collect of an exchange."""


class ShapeError(AfdepError, ValueError):
    """An argument of an exchange outside what the kernels carry."""

    def __init__(self, argument: str, expected: str, received: object, next_step: str):
        super().__init__(f"{argument}: expected {expected}, received {received!r}.", next_step)
        self.args = (argument, expected, received, next_step)
        self.argument = argument
        self.expected = expected
        self.received = received


class IdTypeError(AfdepError, TypeError):
    """Expert ids of a type other than int32 or int64."""

    def __init__(self, dtype: str, num_experts: int):
        super().__init__(
            f"topk_idx: expected int32 or int64 ids (-1 or 0..{num_experts - 1}), received {dtype}.",
            "Cast the ids with .astype(numpy.int64); an unsigned or narrow type cannot say -1, the missing route.",
        )
        self.args = (dtype, num_experts)
        self.dtype = dtype
        self.num_experts = num_experts


class CapacityError(AfdepError, ValueError):
    """More tokens than the bucket, or a bucket above the capacity. Nothing was launched."""

    def __init__(self, tokens: int, bucket: int, capacity: int):
        over_bucket = tokens > bucket
        parameter, limit = ("bucket", bucket) if over_bucket else ("capacity", capacity)
        received = f"T = {tokens}" if over_bucket else f"bucket = {bucket} (T = {tokens})"
        super().__init__(
            f"{parameter}: expected at most {limit} tokens, received {received}.",
            f"Raise {parameter}, or send fewer tokens: T <= bucket <= capacity, here {tokens}, {bucket}, {capacity}.",
        )
        self.args = (tokens, bucket, capacity)
        self.tokens = tokens
        self.bucket = bucket
        self.capacity = capacity
        self.parameter = parameter


class OutOfMemoryError(AfdepError, MemoryError):
    """A rank's memory does not hold what was asked for.

    Args:
        what: what was to be allocated.
    """

    def __init__(self, what: str):
        super().__init__(
            f"simulated memory: expected room for {what}, received none.",
            "A rank has 64 GiB: take a smaller capacity, hidden or top_k, or fewer Attention ranks.",
        )
        self.args = (what,)
        self.what = what


class DeadlockError(AfdepError, RuntimeError):
    """Every actor of the simulated world waits, and nothing can wake one of them.

    Args:
        waits: one entry per waiting actor: its rank, kernel, phase and what it waits for.
    """

    def __init__(self, waits: Sequence[object]):
        waits = list(waits)
        shown = "; ".join(str(wait) for wait in waits[:4])
        more = f"; and {len(waits) - 4} more" if len(waits) > 4 else ""
        super().__init__(
            f"deadlock: expected every wait to end, received {len(waits)} that cannot: {shown}{more}.",
            "Check that every rank takes part in every exchange with the same bucket; `.waits` lists all of them.",
        )
        self.args = (waits,)
        self.waits = waits


class PeerRefusedError(AfdepError, RuntimeError):
    """A rank refused its part of the exchange and told its peers, who raise this.

    Args:
        rank: the rank that refused.
    """

    def __init__(self, rank: int):
        super().__init__(
            f"exchange: expected every rank to take part, received a refusal from rank {rank}.",
            f"Rank {rank} raised the reason; build the Buffers anew after correcting its call.",
        )
        self.args = (rank,)
        self.rank = rank


class DeadBufferError(AfdepError, RuntimeError):
    """A Buffer was used after an exchange failed on it.

    Args:
        reason: the first line of the error that ended it.
    """

    def __init__(self, reason: str):
        super().__init__(f"buffer: expected a live group, received a call after it failed: {reason}", _REBUILD)
        self.args = (reason,)
        self.reason = reason


class MemoryFaultError(AfdepError, RuntimeError):
    """A simulated kernel touched memory outside every live block.

    Args:
        fault: what it touched, and the rank, kernel, CTA and warp that did.
    """

    def __init__(self, fault: str):
        super().__init__(f"simulated memory: expected an address inside a live block, received {fault}.", _REBUILD)
        self.args = (fault,)
        self.fault = fault


_REBUILD = "Nothing more can be exchanged on it: build a new World."


class DeviceAssertion(AfdepError, RuntimeError):  # noqa: N818 - the kernels' own word for it
    """A named assertion of a kernel: the rank that raised it and the route it looked at."""

    def __init__(self, name: str, rank: int, token: int, lane: int, expert: int):
        super().__init__(
            f"device assertion {name}: rank {rank}, token {token}, lane {lane}, received expert id {expert}.",
            "Expected -1 or an id below num_experts, at most once in a token: correct topk_idx[token, lane] there.",
        )
        self.args = (name, rank, token, lane, expert)
        self.name = name
        self.rank = rank
        self.token = token
        self.lane = lane
        self.expert = expert


class TokenCountAssertion(DeviceAssertion):
    """A `num_tokens` word that said more than its rank has rows or the bucket has room for, or less than none.

    Args:
        rank: the rank that read it.
        most: what it may say there, or -1 on a rank that was only told.
        received: what it said.
    """

    def __init__(self, rank: int, most: int, received: int):
        super().__init__("num_tokens_out_of_range", rank, -1, -1, received)
        self.args = (rank, most, received)
        told = f"expected num_tokens 0..{most}, received {received}" if most >= 0 else "which raises what it read"
        self.problem = f"device assertion {self.name}: rank {rank}, {told}."
        self.next_step = "The word may count the rows of x, and the bucket at most: T <= min(len(x), bucket)."
        self.most = most
        self.received = received


class BucketMismatchError(AfdepError, RuntimeError):
    """Ranks passed different buckets for one exchange; the rank that found it has told the others.

    Args:
        rank: the rank that found it.
        bucket: what it was given, or None on a rank that was only told.
        peer: the rank that passed another, or None there.
        received: what that rank passed, or None there.
    """

    def __init__(self, rank: int, bucket: int | None, peer: int | None, received: int | None):
        found = "another" if received is None else f"{received} from rank {peer}"
        own = "" if bucket is None else f" ({bucket})"
        super().__init__(
            f"bucket: expected the one that rank {rank} was given{own}, received {found}.",
            "All ranks pass the same sequence of buckets; build the Buffers anew.",
        )
        self.args = (rank, bucket, peer, received)
        self.rank = rank
        self.bucket = bucket
        self.peer = peer
        self.received = received


class MismatchError(AfdepError, AssertionError):
    """An exchange delivered something else than the reference.

    Args:
        what: the quantity compared, as "received row" or "collected row".
        expected: the reference's value.
        received: the value found.
        rank: the rank that holds the wrong value.
        row: its row there, where it has one.
        source: the rank the row came from, where known.
        token: the token of that source, where known.
        lane: the top-k lane of that token, where known.
        column: the first wrong element of the row, where known.
    """

    def __init__(
        self,
        what: str,
        expected: object,
        received: object,
        rank: int,
        row: int | None = None,
        source: int | None = None,
        token: int | None = None,
        lane: int | None = None,
        column: int | None = None,
    ):
        place = {"rank": rank, "row": row, "source": source, "token": token, "lane": lane, "column": column}
        where = ", ".join(f"{name} {value}" for name, value in place.items() if value is not None)
        super().__init__(
            f"{what} at {where}: expected {expected}, received {received}.",
            "The exchange is not exact: repeat it with the same seed and one exchange to see whether it stays.",
        )
        self.args = (what, expected, received, rank, row, source, token, lane, column)
        self.what = what
        self.expected = expected
        self.received = received
        self.rank = rank
        self.row = row
        self.source = source
        self.token = token
        self.lane = lane
        self.column = column
