"""One exchange of a trial: what the sources send, how ranks run it on any backend, and what must have arrived."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from afdep import fp8, proof, reference, routing
from afdep.elements import to_float32
from afdep.errors import DeviceAssertion
from afdep.proof import checks
from afdep.reference import Sent
from afdep.shapes import ExchangeShape
from harness.studies.validate.cases import Corrupted, Setup

_ZIPF_EXPONENT = 1.0

Brought = Mapping[int, Any]
"""What an exchange brought, by rank: BF16 [T or more, H] that a source collected, whose rows past its tokens must be
zeros, or the rows that an FFN rank received, as `afdep.proof.checks.ReceivedRows` says. A rank whose memory the next
exchange has overwritten is left out.
"""


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
    tokens, sources = min(bucket, setup.trial.tokens), range(setup.shape.layout.attention_ranks)
    return Turn(bucket, [_sent(setup, source, exchange, tokens) for source in sources])


def _sent(setup: Setup, source: int, exchange: int, tokens: int) -> Sent:
    shape, seed = setup.shape, (setup.seed * 1000 + exchange) * 64 + source
    amount = setup.amount(source, exchange)
    is_idle = amount == "none" or (amount == "idle" and exchange < setup.case.exchanges - 1)
    count = 0 if is_idle else 1 if amount == "one" else tokens
    ids = _ids(setup.trial.routing, shape, count, seed)
    if amount == "skipped":
        ids[...] = routing.NO_ROUTE
    weights = np.random.default_rng(seed).random(ids.shape, np.float32)
    if shape.dtype.groups_per_word == 0:
        return Sent(reference.payload(count, shape.hidden, seed), ids, weights)
    x, scales = fp8.payload(count, shape.hidden, shape.dtype, seed)
    return Sent(x, ids, weights, scales)


def _ids(kind: str, shape: ExchangeShape, count: int, seed: int) -> routing.Ids:
    options: dict[str, Any] = {"zipf_exponent": _ZIPF_EXPONENT} if kind == "skew" else {}
    if kind in ("spread", "all-to-one"):
        options["num_ffn_ranks"] = shape.layout.ffn_ranks
    return routing.make(kind, count, shape.num_experts, shape.top_k, seed, **options)


def _spoiled(setup: Setup, turn: Turn) -> Turn:
    """The exchange with a wrong route in the last lane of the last token of the last source."""
    shape, own = setup.shape, turn.sent[-1]
    token, lane, ids = len(own.x) - 1, shape.top_k - 1, own.topk_idx.copy()
    experts = {"beyond": shape.num_experts, "below": -2, "wide": 2**32, "duplicate": int(ids[token, 0])}
    ids[token, lane] = expert = experts[str(setup.case.invalid)]
    name = "duplicate_expert" if setup.case.invalid == "duplicate" else "expert_out_of_range"
    wrong = DeviceAssertion(name, shape.layout.num_ranks - 1, token, lane, expert)
    return replace(turn, sent=[*turn.sent[:-1], replace(own, topk_idx=ids)], wrong=wrong)


@dataclass(frozen=True)
class Inputs:
    """Memory of a source that a graph reads: rows, scale words, ids, weights, and the word of how many rows count."""

    x: Any
    scales: Any
    ids: Any
    weights: Any
    count: Any

    @property
    def arguments(self) -> tuple[Any, Any, Any]:
        """As a source passes them: rows or the pair of rows and scale words, ids, and weights."""
        return self.x if self.scales is None else (self.x, self.scales), self.ids, self.weights

    def take(self, payload: Any, ids: Any, weights: Any) -> None:
        """Hold what a source sends; rows past its tokens keep what was there."""
        x, scales = (payload, None) if self.scales is None else payload
        for held, given in ((self.x, x), (self.scales, scales), (self.ids, ids), (self.weights, weights)):
            if given is not None:
                held[: len(ids)] = given
        self.count[...] = len(ids)


class Ranks(ABC):
    """The ranks of a trial that this process holds: all of a World, or one on a GPU.

    Args:
        setup: of the trial.
        buffers: of these ranks.
        identity: as the loaded library reports it: digest, protocol and switches.
    """

    def __init__(self, setup: Setup, buffers: Sequence[Any], identity: Mapping[str, Any]):
        self.setup, self.identity = setup, identity
        self.sources = [one for one in buffers if one.role == "attention"]
        self.ffns = [one for one in buffers if one.role == "ffn"]
        self.late = self.replays = self.counted = 0
        self.collected: dict[int, Any] = {}
        self.graphs: dict[int, tuple[Any, list[Inputs], Brought]] = {}

    def run(self, turn: Turn) -> Brought:
        """One exchange to its end, over poisoned memory, in the trial's mode, with its pause. Raises AfdepError."""
        given = self._given(turn)
        if self.setup.trial.mode == "eager":
            self.poison(turn.bucket)
            brought = self.enqueue(turn.bucket, given)
        else:
            if turn.bucket not in self.graphs:
                self.graphs[turn.bucket] = self.captured(turn.bucket)
            graph, inputs, brought = self.graphs[turn.bucket]
            for own, arguments in zip(inputs, given, strict=True):
                own.take(*arguments)
            self.poison(turn.bucket)
            graph.replay()
            self.replays += 1
            self.collected = {one.rank: brought[one.rank] for one in self.sources}
        self.settle(turn, brought)
        return {rank: self.fetched(found) for rank, found in brought.items()}

    def run_free(self, turns: Sequence[Turn]) -> Sequence[Brought]:
        """Exchanges one behind the other; what FFN ranks received is there of the last one alone."""
        given = [self._given(turn) for turn in turns]
        self.poison(max(turn.bucket for turn in turns))
        brought = [self.enqueue(turn.bucket, own) for turn, own in zip(turns, given, strict=True)]
        self.settle(None, brought[-1])
        free = [{one.rank: own[one.rank] for one in self.sources} for own in brought[:-1]]
        return [{rank: self.fetched(found) for rank, found in one.items()} for one in [*free, brought[-1]]]

    def is_poisoned(self) -> bool:
        """Whether nothing that the failed exchange collected can be taken for a result: every element is NaN."""
        return all(bool(np.isnan(to_float32(self.fetched(y))).all()) for y in self.collected.values())

    def enqueue(self, bucket: int, given: Sequence[Any], counts: Sequence[Any] = ()) -> Brought:
        """Enqueue an exchange of what each source passes, of whose rows so many count where that is said."""
        case, ffn_ranks = self.setup.case, self.setup.shape.layout.ffn_ranks
        for source, arguments, count in zip(self.sources, given, counts or [None] * len(given), strict=True):
            self.pause(source.rank, case.delay_source_us if source.rank == ffn_ranks else 0)
            source.source_dispatch(*arguments, bucket=bucket, num_tokens=count)
        more = {"host_counts": True} if case.host_counts else {}
        received = {ffn.rank: ffn.ffn_receive(bucket=bucket, **more) for ffn in self.ffns}
        for ffn in self.ffns:
            out = self.transformed(ffn, received[ffn.rank])
            self.pause(ffn.rank, case.delay_ffn_us if ffn.rank == ffn_ranks - 1 else 0)
            ffn.ffn_reply(received[ffn.rank], out)
        self.collected = {source.rank: source.source_collect() for source in self.sources}
        return {**self.collected, **received}

    def captured(self, bucket: int) -> tuple[Any, list[Inputs], Brought]:
        """An exchange of a bucket as a graph, what it reads, and what its replays fill."""
        inputs = [self.inputs(one.rank, bucket) for one in self.sources]
        with self.capturing() as graph:
            brought = self.enqueue(bucket, [own.arguments for own in inputs], [own.count for own in inputs])
        return graph, inputs, brought

    def close(self) -> None:
        """Give everything back, whatever the exchanges ended with; collective."""
        self.graphs.clear()
        self.collected = {}

    def _given(self, turn: Turn) -> list[Any]:
        first = self.setup.shape.layout.ffn_ranks
        return [self.arguments(turn.sent[one.rank - first]) for one in self.sources]

    @property
    @abstractmethod
    def informed(self) -> int:
        """How many of these ranks have been told of a failure."""

    @abstractmethod
    def arguments(self, sent: Sent) -> tuple[Any, Any, Any]:
        """What a source passes, in its memory: as Inputs.arguments."""

    @abstractmethod
    def inputs(self, rank: int, bucket: int) -> Inputs:
        """Memory of a source for the graph of a bucket."""

    @abstractmethod
    def poison(self, bucket: int) -> None:
        """Poison what an exchange writes, before any rank begins it."""

    @abstractmethod
    def transformed(self, ffn: Any, received: Any) -> Any:
        """Enqueue the expert-dependent stand-in of an FFN rank: its result."""

    @abstractmethod
    def pause(self, rank: int, us: int) -> None:
        """Enqueue a pause of a rank; 0 is none."""

    @abstractmethod
    def capturing(self) -> AbstractContextManager[Any]:
        """A block whose exchange becomes the graph that this gives."""

    @abstractmethod
    def settle(self, turn: Turn | None, brought: Brought) -> None:
        """Let everything enqueued happen, and count what shows in it. Raises AfdepError."""

    @abstractmethod
    def fetched(self, found: Any) -> Any:
        """What a rank was given, as the host compares it."""


def compare(shape: ExchangeShape, turn: Turn, brought: Brought) -> int:
    """Compare what ranks were given with the reference, bit for bit.

    Returns:
        How many elements were compared: of rows, and words of weights and scales.

    Raises:
        MismatchError: the first difference.
    """
    return sum(_compared(shape, turn, rank, found) for rank, found in brought.items())


def _compared(shape: ExchangeShape, turn: Turn, rank: int, found: Any) -> int:
    layout = shape.layout
    if layout.role(rank) == "ffn":
        numbers = {"num_ffn_ranks": layout.ffn_ranks, "num_experts": shape.num_experts}
        checks.check_received(found, turn.sent, rank=rank, **numbers)
        words = 0 if found.scales is None else found.scales.shape[1]
        return int(found.expert_offsets[-1]) * (shape.hidden + 1 + words)
    (wanted,) = proof.expected(shape, [turn.sent[rank - layout.ffn_ranks]])
    padded = np.zeros((max(len(wanted), len(found)), wanted.shape[1]), wanted.dtype)
    padded[: len(wanted)] = wanted
    checks.check_collected(found, padded, rank=rank)
    return int(found.size)


def with_a_bit_turned(shape: ExchangeShape, brought: Brought, where: Corrupted) -> Brought | None:
    """The same with a wrong bit in the last row of the first rank that has such rows; None where none has."""
    for rank, found in brought.items():
        is_ffn = shape.layout.role(rank) == "ffn"
        rows = np.array(found.x[: found.expert_offsets[-1]] if is_ffn else found)
        if is_ffn == (where == "received") and rows.size:
            rows.view(f"u{rows.dtype.itemsize}")[-1, -1] ^= 1
            return {**brought, rank: replace(found, x=rows) if is_ffn else rows}
    return None
