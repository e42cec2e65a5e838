"""Coverage conditions: what must have happened in a trial for it to show what its case claims.

Each process counts from what was sent and what it saw, and the counts of all processes come to one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from afdep import Arm
from afdep.reference import Sent
from harness.studies.validate.cases import Setup
from harness.studies.validate.exchange import Turn

_BUSY = 2.0
"""A routing is skewed where the busiest expert has so many times an even share of the rows."""


@dataclass
class Seen:
    """What a process saw of a trial.

    Args:
        setup: of the trial.
        ranks: that the process holds.
        turns: what was sent.
        exact: exchanges compared bit for bit without a difference.
        free: exchanges of these that ran one behind the other.
        elements: compared without a difference.
        late: exchanges in which the pause that was asked for shows between what ran before and behind it.
        replays: graphs replayed.
        counted: exchanges whose host counts were compared once the next was under way.
        informed: ranks that were told of a failure.
        refused: ranks that refused to be made.
        found: wrong bits that the comparison found.
        identity: as the loaded library reports it: digest, protocol and switches.
    """

    setup: Setup
    ranks: Sequence[int]
    turns: Sequence[Turn] = ()
    exact: int = 0
    free: int = 0
    elements: int = 0
    late: int = 0
    replays: int = 0
    counted: int = 0
    informed: int = 0
    refused: int = 0
    found: int = 0
    identity: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> dict[str, int]:
        """Controls that the trial is to have."""
        return dict(Arm.parse(self.setup.trial.arm).switches)

    @property
    def switches(self) -> dict[str, int]:
        """Controls that the loaded library reports."""
        return dict(self.identity.get("switches", ()))


def full_exchanges(seen: Seen) -> int:
    """Exchanges, if all were exact, in which each source filled the bucket and routed each token."""
    whole = [turn for turn in seen.turns if all(_is_full(one, turn.bucket) for one in turn.sent)]
    return len(whole) if seen.exact >= len(seen.turns) else 0


def empty_sources(seen: Seen) -> int:
    """Sources without tokens beside exchanges of theirs with some, over all exchanges."""
    counts = _num_tokens(seen)
    return int((counts == 0)[:, counts.any(axis=0)].sum())


def idle_exchanges(seen: Seen) -> int:
    """The longest run of exchanges that a source sat out before it took part."""
    return int(max((own > 0).argmax() for own in _num_tokens(seen).T))


def skipped_sources(seen: Seen) -> int:
    """Sources with tokens of which none has a route, over all exchanges."""
    return sum(len(one.x) > 0 and bool((one.topk_idx < 0).all()) for turn in seen.turns for one in turn.sent)


def skewed_exchanges(seen: Seen) -> int:
    """Exchanges whose busiest expert has several times an even share."""
    busiest = [np.bincount(_routed(turn), minlength=seen.setup.trial.num_experts) for turn in seen.turns]
    return sum(bool(counts.max() > _BUSY * counts.mean()) for counts in busiest)


def small_spread_sources(seen: Seen) -> int:
    """Sources of one token whose routes reach every FFN rank, over all exchanges."""
    shape = seen.setup.shape
    single = [one.topk_idx for turn in seen.turns for one in turn.sent if len(one.x) == 1]
    ranks = [np.unique(ids[ids >= 0] // shape.experts_per_rank) for ids in single]
    return sum(len(reached) == shape.layout.ffn_ranks for reached in ranks)


def changed_replays(seen: Seen) -> int:
    """Replays with other ids and other rows than the one before."""
    changed = [_differ(before, after) for before, after in pairwise(seen.turns)]
    return sum(changed) if seen.replays >= len(seen.turns) else 0


def bucket_changes(seen: Seen) -> int:
    """Exchanges with another bucket than the one before, once each bucket of the cycle has come back."""
    changes = sum(before.bucket != after.bucket for before, after in pairwise(seen.turns))
    return changes if len(seen.turns) > len(seen.setup.case.buckets) else 0


def reused_counts(seen: Seen) -> int:
    """Host counts compared once the next exchange was under way; a source has none to read, and no say."""
    return seen.counted if _is_ffn(seen) else len(seen.turns)


def informed_ranks(seen: Seen) -> int:
    """Ranks told of the failure, if these are all."""
    return seen.informed if seen.informed == len(seen.ranks) else 0


def loaded_switches(seen: Seen) -> int:
    """Controls that the loaded library reports, if these are all that were asked for."""
    return len(seen.asked) if seen.switches == seen.asked else 0


def role_switches(seen: Seen) -> int:
    """FFN ranks, if this rank's library reports the control of its role alone."""
    return seen.setup.shape.layout.ffn_ranks if seen.switches == (seen.asked if _is_ffn(seen) else {}) else 0


def _is_ffn(seen: Seen) -> bool:
    return seen.setup.shape.layout.role(seen.ranks[0]) == "ffn"


def _num_tokens(seen: Seen) -> Any:
    """[exchanges, sources]."""
    return np.array([[len(one.x) for one in turn.sent] for turn in seen.turns])


def _is_full(sent: Sent, bucket: int) -> bool:
    return len(sent.x) == bucket and bool((sent.topk_idx >= 0).any(axis=1).all())


def _routed(turn: Turn) -> Any:
    ids = np.concatenate([one.topk_idx.ravel() for one in turn.sent]).astype(np.int64)
    return ids[ids >= 0]


def _differ(before: Turn, after: Turn) -> bool:
    pairs = [one for one in zip(before.sent, after.sent, strict=True) if len(one[0].x) and len(one[1].x)]
    ids = any(a.topk_idx.tobytes() != b.topk_idx.tobytes() for a, b in pairs)
    return ids and any(a.x.tobytes() != b.x.tobytes() for a, b in pairs)


def _of_all(counts: Sequence[int]) -> int:
    """All of them together, or none where one counted none."""
    return sum(counts) if all(counts) else 0


CONDITIONS: Mapping[str, tuple[Callable[[Seen], int], Callable[[Sequence[int]], int]]] = {
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
