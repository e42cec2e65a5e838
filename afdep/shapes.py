"""The shape of an exchange, validated where it is made."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from afdep.arms import Protocol
from afdep.dtypes import DispatchDtype, dispatch_dtype
from afdep.errors import CapacityError, ShapeError
from afdep.layout import Layout

MAX_HIDDEN = 8192
MAX_TOP_K = 32
MAX_EXPERTS = 32_766
"""Ids travel as 15-bit codes, and 0x7fff means no route."""
MAX_CAPACITY = 8192
MAX_TRANSPORT_SMS = 132
"""SMs of an H100 or H200."""

ROW_ALIGNMENT = 16
"""Bytes; the granule of a bulk copy."""
M2N_ROW_ALIGNMENT = 32
"""Bytes; the faithful record of `m2n` pads no row."""


@dataclass(frozen=True)
class ExchangeShape:
    """Everything the ranks of one group agree on besides the protocol.

    Args:
        layout: the ranks and their roles.
        hidden: elements of a row, to MAX_HIDDEN; a row is a multiple of ROW_ALIGNMENT bytes.
        num_experts: experts over all FFN ranks, divisible by their number, to MAX_EXPERTS.
        top_k: routes of a token, 1 to MAX_TOP_K.
        capacity: most tokens of a source in one exchange, 1 to MAX_CAPACITY; any number, rounded nowhere.
        dispatch_dtype: a name of DISPATCH_DTYPES.
        transport_sms: CTAs of the main kernels, 1 to MAX_TRANSPORT_SMS.
        expert_alignment: rows that every expert's block of received rows is padded to a multiple of.

    Raises:
        ShapeError: naming the argument, what was expected and what was received.
    """

    layout: Layout
    hidden: int
    num_experts: int
    top_k: int
    capacity: int
    dispatch_dtype: str = "bf16"
    transport_sms: int = 24
    expert_alignment: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout):
            raise ShapeError("layout", "a Layout", self.layout, "Pass Layout.parse(text).")
        _check_range("hidden", self.hidden, 1, MAX_HIDDEN)
        _check_range("num_experts", self.num_experts, 1, MAX_EXPERTS)
        _check_range("top_k", self.top_k, 1, MAX_TOP_K)
        _check_range("capacity", self.capacity, 1, MAX_CAPACITY)
        _check_range("transport_sms", self.transport_sms, 1, MAX_TRANSPORT_SMS)
        _check_range("expert_alignment", self.expert_alignment, 1, MAX_CAPACITY)
        self._check_rows(ROW_ALIGNMENT)
        self._check_experts()

    def check_protocol(self, protocol: Protocol) -> None:
        """Refuse what the records of a protocol cannot carry.

        Raises:
            ShapeError: `m2n` with rows that are no multiple of M2N_ROW_ALIGNMENT bytes.
        """
        if protocol == "m2n":
            self._check_rows(M2N_ROW_ALIGNMENT)

    def check_bucket(self, tokens: int, bucket: int) -> None:
        """Check one rank's call: 0 <= tokens <= bucket <= capacity, and bucket of at least 1.

        Raises:
            CapacityError: more tokens than the bucket, or a bucket above the capacity.
            ShapeError: not integers, negative tokens, or a bucket below 1.
        """
        _check_integer("num_tokens", tokens)
        _check_integer("bucket", bucket)
        if tokens < 0:
            raise ShapeError("num_tokens", "0 or more", tokens, "Pass x with a row for each token; none is fine.")
        if bucket < 1:
            raise ShapeError("bucket", f"1..{self.capacity}", bucket, "All ranks pass the same bucket; T may be 0.")
        if tokens > bucket or bucket > self.capacity:
            raise CapacityError(tokens, bucket, self.capacity)

    def tokens(self, rows: int, bucket: int, num_tokens: Any) -> int:
        """Tokens of a call with that many rows: `num_tokens`, or all where it is None.

        Raises:
            CapacityError, ShapeError: as `check_bucket`, or more tokens than rows.
        """
        tokens = rows if num_tokens is None else num_tokens
        self.check_bucket(tokens, bucket)
        if tokens > rows:
            raise ShapeError("num_tokens", f"at most {rows}, the rows of x", tokens, "Pass x with more rows.")
        return int(tokens)

    def most_tokens(self, rows: int, bucket: int) -> int:
        """Tokens that a call with that many rows can have where a word on the device says how many.

        Raises:
            CapacityError, ShapeError: as `check_bucket`.
        """
        self.check_bucket(0, bucket)
        return min(rows, bucket)

    def logical_experts(self, protocol: Protocol) -> int:
        """Expert slots the protocol counts: `m2n` gives every rank as many as an FFN rank, Attention ranks dummies."""
        ranks = self.layout.num_ranks if protocol == "m2n" else self.layout.ffn_ranks
        return ranks * self.experts_per_rank

    def max_received_rows(self, bucket: int) -> int:
        """Rows an FFN rank receives at most in an exchange of that bucket, padding for alignment included."""
        routed = self.layout.attention_ranks * bucket * min(self.top_k, self.experts_per_rank)
        padded = routed + (self.expert_alignment - 1) * self.experts_per_rank
        return padded // self.expert_alignment * self.expert_alignment

    @property
    def dtype(self) -> DispatchDtype:
        return dispatch_dtype(self.dispatch_dtype)

    @property
    def experts_per_rank(self) -> int:
        return self.num_experts // self.layout.ffn_ranks

    def _check_rows(self, alignment: int) -> None:
        for payload in (self.dtype, dispatch_dtype("bf16")):
            if payload.row_bytes(self.hidden) % alignment:
                step = alignment // payload.element_bytes
                raise ShapeError(
                    "hidden",
                    f"a multiple of {step} ({payload.name} rows of a multiple of {alignment} bytes)",
                    self.hidden,
                    f"Pad the rows to {-(-self.hidden // step) * step} elements.",
                )

    def _check_experts(self) -> None:
        if self.num_experts % self.layout.ffn_ranks:
            raise ShapeError(
                "num_experts",
                f"a multiple of the {self.layout.ffn_ranks} FFN ranks of {self.layout}",
                self.num_experts,
                "Every FFN rank holds the same number of experts; change one of the two numbers.",
            )


def _check_integer(argument: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ShapeError(argument, "an integer", value, f"It is a {type(value).__name__}; pass int({argument}).")


def _check_range(argument: str, value: int, low: int, high: int) -> None:
    _check_integer(argument, value)
    if not low <= value <= high:
        raise ShapeError(argument, f"{low}..{high}", value, f"The kernels carry {argument} of {low} to {high}.")
