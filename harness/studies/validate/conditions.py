"""Coverage conditions: what must have happened in a trial for it to show what its case claims.

Each process counts from what was sent and what its ranks saw, and the counts of all processes come to one.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from harness.studies.validate.exchange import Turn
from harness.studies.validate.ranks import Ranks

_BUSY = 2.0
"""A routing is skewed where the busiest expert has so many times an even share of the rows."""


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


def refused_ranks(seen: Ranks) -> int:
    """Ranks that were made have not refused to be; those that do are counted as they do."""
    return 0


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
    "refused ranks": (refused_ranks, _of_all),
    "found bits": (attrgetter("found"), sum),
}
"""By the words a case names them with: how a process counts, and what the counts of all processes come to."""
