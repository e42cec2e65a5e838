"""The ranks of a trial that one process holds: how they run exchanges on any backend, and what was seen of them.

A coverage condition is what must have happened in a trial for it to show what its case claims. Each process counts it
from what was sent and what its ranks saw, and the counts of all processes come to one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from afdep import routing
from afdep.elements import to_float32
from afdep.proof import payload
from afdep.reference import Sent
from harness.studies.validate.exchange import Brought, Setup, Turn

_BUSY = 2.0
"""A routing is skewed where the busiest expert has so many times an even share of the rows."""


@dataclass(frozen=True)
class Inputs:
    """Memory of a source that a graph reads.

    Args:
        arguments: rows, or the pair of rows and scale words, ids and weights, as a source passes them.
        count: the word of how many rows count.
    """

    arguments: tuple[Any, Any, Any]
    count: Any

    def take(self, arguments: tuple[Any, Any, Any]) -> None:
        """Hold what a source sends; rows past its tokens keep what was there."""
        num_tokens = len(arguments[1])
        for held, given in zip(_arrays(*self.arguments), _arrays(*arguments), strict=True):
            held[:num_tokens] = given
        self.count[...] = num_tokens


def _arrays(x: Any, ids: Any, weights: Any) -> list[Any]:
    return [*(x if isinstance(x, tuple) else (x,)), ids, weights]


class Ranks(ABC):
    """All ranks of a World, or one on a GPU.

    Args:
        setup: of the trial.
        buffers: of these ranks.
        identity: as the loaded library reports it: digest, protocol and switches.

    Attributes:
        numbers: of these ranks.
        turns: what was sent.
        exact: exchanges compared bit for bit without a difference.
        free: exchanges of these that ran one behind the other.
        elements: compared without a difference.
        late: exchanges in which the pause that was asked for shows between what ran before and behind it.
        replays: graphs replayed.
        counted: exchanges whose host counts were compared once the next was under way.
        informed: ranks that were told of a failure.
        refused: none of those that were made; `harness.studies.validate.protocol` counts ranks that refuse to be.
        found: wrong bits that the comparison found.
    """

    turns: Sequence[Turn] = ()
    exact = free = elements = late = replays = counted = informed = refused = found = 0

    def __init__(self, setup: Setup, buffers: Sequence[Any], identity: Mapping[str, Any]):
        self.setup, self.identity = setup, identity
        self.numbers = [one.rank for one in buffers]
        self.sources = [one for one in buffers if one.role == "attention"]
        self.ffns = [one for one in buffers if one.role == "ffn"]
        self.graphs: dict[int, tuple[Any, list[Inputs], Brought]] = {}
        self._brought: Brought = {}

    def run(self, turn: Turn) -> Brought:
        """One exchange to its end, over poisoned memory, in the trial's mode, with its pause. Raises AfdepError."""
        given = self._given(turn)
        if self.setup.trial.mode == "eager":
            self.poison(turn.bucket)
            self._brought = self.enqueue(turn.bucket, given)
        else:
            if turn.bucket not in self.graphs:
                self.graphs[turn.bucket] = self.captured(turn.bucket)
            graph, inputs, self._brought = self.graphs[turn.bucket]
            for own, arguments in zip(inputs, given, strict=True):
                own.take(arguments)
            self.poison(turn.bucket)
            graph.replay()
            self.replays += 1
        shown_us = self.settle(self._brought)
        self.late += 0 < self.setup.case.pause_us <= shown_us
        return {rank: self.fetched(found) for rank, found in self._brought.items()}

    def run_free(self, turns: Sequence[Turn]) -> Sequence[Brought]:
        """Exchanges one behind the other; what FFN ranks received is there of the last one alone."""
        given = [self._given(turn) for turn in turns]
        self.poison(max(turn.bucket for turn in turns))
        brought = [self.enqueue(turn.bucket, own) for turn, own in zip(turns, given, strict=True)]
        self.settle({})
        free = [{one.rank: own[one.rank] for one in self.sources} for own in brought[:-1]]
        return [{rank: self.fetched(found) for rank, found in one.items()} for one in [*free, brought[-1]]]

    def is_poisoned(self) -> bool:
        """Whether nothing that the failed exchange collected can be taken for a result: every element is NaN."""
        collected = [self.fetched(self._brought[one.rank]) for one in self.sources]
        return all(bool(np.isnan(to_float32(y)).all()) for y in collected)

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
        return {**{source.rank: source.source_collect() for source in self.sources}, **received}

    def captured(self, bucket: int) -> tuple[Any, list[Inputs], Brought]:
        """An exchange of a bucket as a graph, what it reads, and what its replays fill."""
        inputs = self.inputs(self.unrouted(bucket))
        with self.capturing() as graph:
            brought = self.enqueue(bucket, [own.arguments for own in inputs], [own.count for own in inputs])
        return graph, inputs, brought

    def unrouted(self, num_tokens: int) -> list[Sent]:
        """What these sources send whose tokens have no route."""
        ids = np.full((num_tokens, self.setup.trial.top_k), routing.NO_ROUTE, np.int64)
        return payload.draw(self.setup, routing.Load([ids] * len(self.sources)), self.setup.seed)

    def num_informed(self) -> int:
        """How many of these ranks have been told of a failure; one that raised it has."""
        return len(self.numbers)

    def close(self) -> None:
        """Give everything back, whatever the exchanges ended with; collective."""
        self.graphs.clear()

    def _given(self, turn: Turn) -> list[Any]:
        first = self.setup.shape.layout.ffn_ranks
        return self.arguments([turn.sent[one.rank - first] for one in self.sources])

    @abstractmethod
    def arguments(self, sent: Sequence[Sent]) -> list[tuple[Any, Any, Any]]:
        """What each source passes: rows, or the pair of rows and scale words, ids and weights."""

    @abstractmethod
    def inputs(self, sent: Sequence[Sent]) -> list[Inputs]:
        """Memory of each source for a graph, with room for what it sends."""

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
    def settle(self, brought: Brought) -> float:
        """Let everything enqueued happen; `brought` is empty where exchanges ran free.

        Returns:
            How long the pause took, where one was asked for, in us: from what ran before it to what ran behind it.

        Raises:
            AfdepError: an exchange failed.
        """

    @abstractmethod
    def fetched(self, found: Any) -> Any:
        """What a rank was given, as the host compares it."""


def full_exchanges(seen: Ranks) -> int:
    """Exchanges, if all were exact, in which each source filled the bucket and routed each token."""
    routed = [[(one.topk_idx >= 0).any(axis=1).sum() for one in turn.sent] for turn in seen.turns]
    whole = [set(tokens) == {turn.bucket} for turn, tokens in zip(seen.turns, routed, strict=True)]
    return sum(whole) if seen.exact >= len(seen.turns) else 0


def empty_sources(seen: Ranks) -> int:
    """Sources without tokens beside exchanges of theirs with some, over all exchanges."""
    counts = _num_tokens(seen)
    return int((counts == 0)[:, counts.any(axis=0)].sum())


def idle_exchanges(seen: Ranks) -> int:
    """The longest run of exchanges that a source sat out before it took part."""
    return int((_num_tokens(seen) > 0).argmax(axis=0).max())


def skipped_sources(seen: Ranks) -> int:
    """Sources with tokens of which none has a route, over all exchanges."""
    return sum(len(one.x) > 0 and bool((one.topk_idx < 0).all()) for turn in seen.turns for one in turn.sent)


def skewed_exchanges(seen: Ranks) -> int:
    """Exchanges whose busiest expert has several times an even share."""
    ids = [np.concatenate([one.topk_idx.ravel() for one in turn.sent]) for turn in seen.turns]
    counts = [np.bincount(one[one >= 0], minlength=seen.setup.trial.num_experts) for one in ids]
    return sum(bool(one.max() > _BUSY * one.mean()) for one in counts)


def small_spread_sources(seen: Ranks) -> int:
    """Sources of one token whose routes reach every FFN rank, over all exchanges."""
    shape = seen.setup.shape
    single = [one.topk_idx for turn in seen.turns for one in turn.sent if len(one.x) == 1]
    reached = [np.unique(ids[ids >= 0] // shape.experts_per_rank) for ids in single]
    return sum(len(ranks) == shape.layout.ffn_ranks for ranks in reached)


def changed_replays(seen: Ranks) -> int:
    """Replays with other ids and other rows than the one before."""
    changed = [_differ(before, after) for before, after in pairwise(seen.turns)]
    return sum(changed) if seen.replays >= len(seen.turns) else 0


def bucket_changes(seen: Ranks) -> int:
    """Exchanges with another bucket than the one before, once each bucket of the cycle has come back."""
    changes = sum(before.bucket != after.bucket for before, after in pairwise(seen.turns))
    return changes if len(seen.turns) > len(seen.setup.case.buckets) else 0


def reused_counts(seen: Ranks) -> int:
    """Host counts compared once the next exchange was under way; a source has none to read, and no say."""
    return seen.counted if seen.ffns else len(seen.turns)


def informed_ranks(seen: Ranks) -> int:
    """Ranks told of the failure, if these are all."""
    return seen.informed if seen.informed == len(seen.numbers) else 0


def loaded_switches(seen: Ranks) -> int:
    """Controls that the loaded library reports, if these are all that were asked for."""
    asked = seen.setup.switches
    return len(asked) if dict(seen.identity["switches"]) == asked else 0


def role_switches(seen: Ranks) -> int:
    """FFN ranks, if this rank's library reports the control of its role alone."""
    expected = seen.setup.switches if seen.ffns else {}
    return seen.setup.shape.layout.ffn_ranks if dict(seen.identity["switches"]) == expected else 0


def _num_tokens(seen: Ranks) -> Any:
    """[exchanges, sources]."""
    return np.array([[len(one.x) for one in turn.sent] for turn in seen.turns])


def _differ(before: Turn, after: Turn) -> bool:
    pairs = [one for one in zip(before.sent, after.sent, strict=True) if len(one[0].x) and len(one[1].x)]
    ids = any(a.topk_idx.tobytes() != b.topk_idx.tobytes() for a, b in pairs)
    return ids and any(a.x.tobytes() != b.x.tobytes() for a, b in pairs)


def _of_all(counts: Sequence[int]) -> int:
    """All of them together, or none where one counted none."""
    return sum(counts) if all(counts) else 0


CONDITIONS: Mapping[str, tuple[Callable[[Ranks], int], Callable[[Sequence[int]], int]]] = {
    "full exchanges": (full_exchanges, min),
    "empty sources": (empty_sources, min),
    "idle exchanges": (idle_exchanges, min),
    "skipped sources": (skipped_sources, min),
    "skewed exchanges": (skewed_exchanges, min),
    "small spread sources": (small_spread_sources, min),
    "late exchanges": (attrgetter("late"), max),
    "changed replays": (changed_replays, min),
    "bucket changes": (bucket_changes, min),
    "reused counts": (reused_counts, min),
    "informed ranks": (informed_ranks, _of_all),
    "loaded switches": (loaded_switches, min),
    "role switches": (role_switches, min),
    "refused ranks": (attrgetter("refused"), _of_all),
    "found bits": (attrgetter("found"), sum),
}
"""By the words a case names them with: how a process counts, and what the counts of all processes come to."""
