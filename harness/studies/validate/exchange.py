"""One exchange of a trial: what the sources send, and what must have arrived."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from afdep import Arm, Layout, proof, routing
from afdep.errors import DeviceAssertion
from afdep.proof import checks, payload
from afdep.reference import Sent
from afdep.shapes import ExchangeShape
from harness.studies.validate.cases import Case, Matrix, Trial

_ZIPF_EXPONENT = 1.0

Brought = Mapping[int, Any]
"""What an exchange brought, by rank: BF16 [T or more, H] that a source collected, whose rows past its tokens must be
zeros, or the rows that an FFN rank received, as `afdep.proof.checks.ReceivedRows` says. A rank whose memory the next
exchange has overwritten is left out.
"""


@dataclass(frozen=True)
class Setup:
    """A trial with all that its processes need to know of it.

    Args:
        trial: the trial.
        case: its case.
        machine: of the simulator.
        seed: of routes and payload.
    """

    trial: Trial
    case: Case
    machine: str
    seed: int

    @classmethod
    def of(cls, matrix: Matrix, trial: Trial) -> "Setup":
        return cls(trial, matrix.all_cases[trial.case], matrix.machine, matrix.seed)

    @property
    def buckets(self) -> tuple[int, ...]:
        """Classes of tokens, in turn."""
        return self.case.buckets or (self.trial.tokens,)

    @property
    def switches(self) -> dict[str, int]:
        """Controls that the trial is to have."""
        return dict(Arm.parse(self.trial.arm).switches)

    @cached_property
    def shape(self) -> ExchangeShape:
        """The shape of its exchanges, of which no ranks need be made.

        Raises:
            ShapeError: one that the kernels do not carry.
        """
        shape = ExchangeShape(**{**self.buffer_fields(), "layout": Layout.parse(self.trial.layout)})
        shape.check_protocol(Arm.parse(self.trial.arm).protocol)
        return shape

    def arm(self, rank: int) -> str:
        """The arm of a rank: where a role has a control of its own, that is the FFN ranks'."""
        alone = self.case.one_role and self.shape.layout.role(rank) != "ffn"
        return Arm.parse("afdep").name if alone else self.trial.arm

    def buffer_fields(self) -> dict[str, Any]:
        """The shape of its exchanges as a Buffer or a World takes it, but for its arm."""
        names = ("layout", "hidden", "num_experts", "top_k", "transport_sms")
        own = {name: getattr(self.trial, name) for name in names}
        return {**own, "capacity": max((*self.buckets, self.trial.tokens)), "dispatch_dtype": self.trial.dtype}


@dataclass(frozen=True)
class Turn:
    """One exchange.

    Args:
        bucket: of every rank.
        sent: rows, ids and weights by source, as many as it has tokens.
        wrong: of a route that no kernel may take, what the kernels must call it and where it is; or None.
    """

    bucket: int
    sent: Sequence[Sent]
    wrong: DeviceAssertion | None = None


def turns(setup: Setup) -> list[Turn]:
    """Every exchange of a trial, with fresh payload, routes and weights each: drawn from the seed alone."""
    made = [_turn(setup, exchange) for exchange in range(setup.case.exchanges)]
    return [*made[:-1], _spoiled(setup, made[-1])] if setup.case.invalid else made


def _turn(setup: Setup, exchange: int) -> Turn:
    bucket = setup.buckets[exchange % len(setup.buckets)]
    ids = [_ids(setup, source, exchange, bucket) for source in range(setup.shape.layout.attention_ranks)]
    return Turn(bucket, payload.draw(setup, routing.Load(ids), setup.seed * 1000 + exchange))


def _ids(setup: Setup, source: int, exchange: int, bucket: int) -> routing.Ids:
    """The routes of as many tokens as a source sends in an exchange."""
    shape, case, kind = setup.shape, setup.case, setup.trial.routing
    amount = case.sources[(source + exchange * case.rotate) % len(case.sources)]
    is_idle = amount == "none" or (amount == "idle" and exchange < case.exchanges - 1)
    count = 0 if is_idle else 1 if amount == "one" else min(bucket, setup.trial.tokens)
    seed = (setup.seed * 1000 + exchange) * 64 + source
    ids = routing.make(
        kind,
        count,
        shape.num_experts,
        shape.top_k,
        seed,
        zipf_exponent=_ZIPF_EXPONENT if kind == "skew" else None,
        num_ffn_ranks=shape.layout.ffn_ranks,
    )
    return np.full_like(ids, routing.NO_ROUTE) if amount == "skipped" else ids


def _spoiled(setup: Setup, turn: Turn) -> Turn:
    """The exchange with a wrong route in the last lane of the last token of the last source."""
    shape, own = setup.shape, turn.sent[-1]
    token, lane, ids = len(own.x) - 1, shape.top_k - 1, own.topk_idx.copy()
    experts = {"beyond": shape.num_experts, "below": -2, "wide": 2**32, "duplicate": int(ids[token, 0])}
    ids[token, lane] = expert = experts[str(setup.case.invalid)]
    name = "duplicate_expert" if setup.case.invalid == "duplicate" else "expert_out_of_range"
    wrong = DeviceAssertion(name, shape.layout.num_ranks - 1, token, lane, expert)
    return replace(turn, sent=[*turn.sent[:-1], replace(own, topk_idx=ids)], wrong=wrong)


def compare(shape: ExchangeShape, turn: Turn, brought: Brought) -> int:
    """Compare what ranks were given with the reference, bit for bit.

    Returns:
        How many elements were compared: of rows, and words of weights and scales.

    Raises:
        MismatchError: the first difference.
    """
    return sum(_compared(shape, turn, rank, found) for rank, found in brought.items())


def _compared(shape: ExchangeShape, turn: Turn, rank: int, found: Any) -> int:
    ffn_ranks = shape.layout.ffn_ranks
    if shape.layout.role(rank) == "ffn":
        checks.check_received(found, turn.sent, rank=rank, num_ffn_ranks=ffn_ranks, num_experts=shape.num_experts)
        words = shape.dtype.scale_bytes(shape.hidden) // 4
        return int(found.expert_offsets[-1]) * (shape.hidden + 1 + words)
    (wanted,) = proof.expected(shape, [turn.sent[rank - ffn_ranks]])
    past = max(0, len(found) - len(wanted))
    checks.check_collected(found, np.pad(wanted, ((0, past), (0, 0))), rank=rank)
    return int(found.size)


def with_a_bit_turned(shape: ExchangeShape, brought: Brought, where: str) -> Brought | None:
    """The same with a wrong bit in the last row of the first rank that has such rows; None where none has.

    Args:
        shape: of the exchange.
        brought: what it brought.
        where: rows that were collected, or received.
    """
    for rank, found in brought.items():
        is_ffn = shape.layout.role(rank) == "ffn"
        rows = np.array(found.x[: found.expert_offsets[-1]] if is_ffn else found)
        if is_ffn == (where == "received") and rows.size:
            rows.view(f"u{rows.dtype.itemsize}")[-1, -1] ^= 1
            return {**brought, rank: replace(found, x=rows) if is_ffn else rows}
    return None
