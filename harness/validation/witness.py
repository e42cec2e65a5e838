"""What must have happened in a trial for it to show what its case claims, counted from what was sent and seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from afdep.arms import Arm
from afdep.reference import Sent
from afdep.shapes import ExchangeShape
from harness.validation.cases import Trial
from harness.validation.turns import Turn

_BUSY = 2.0
"""A routing is skewed where the busiest expert has so many times an even share of the rows."""


@dataclass
class Seen:
    """What a trial was and what its play showed.

    Args:
        trial: what was asked for.
        shape: of its exchanges.
        turns: what was sent.
        exact: exchanges compared bit for bit without a difference.
        free: exchanges of these that ran one behind the other.
        late: exchanges in which the pause that was asked for shows between what ran before and behind it.
        replays: graphs replayed.
        switches: controls that the loaded library reports.
        alone: ranks of FFN that report the control of their role, where no rank of Attention does.
        informed: ranks that were told of a failure.
        refused: ranks that refused to be made.
        found: wrong bits that the comparison found.
        counted: exchanges whose host counts were compared once the next was under way.
    """

    trial: Trial
    shape: ExchangeShape
    turns: Sequence[Turn]
    exact: int = 0
    free: int = 0
    late: int = 0
    replays: int = 0
    switches: dict[str, int] = field(default_factory=dict)
    alone: int = 0
    informed: int = 0
    refused: int = 0
    found: int = 0
    counted: int = 0


def full_exchanges(seen: Seen) -> int:
    """Exchanges, if all were exact, in which each source filled the bucket and routed each token."""
    whole = [turn for turn in seen.turns if all(_is_full(one, turn.bucket) for one in turn.sent)]
    return len(whole) if seen.exact >= len(seen.turns) else 0


def empty_sources(seen: Seen) -> int:
    """Sources without tokens beside exchanges of theirs with some, over all exchanges."""
    counts = np.array([[len(one.x) for one in turn.sent] for turn in seen.turns])
    return int((counts == 0)[:, counts.any(axis=0)].sum())


def idle_exchanges(seen: Seen) -> int:
    """The longest run of exchanges that a source sat out before it took part."""
    counts = [[len(one.x) for one in turn.sent] for turn in seen.turns]
    starts = [next((index for index, count in enumerate(own) if count), 0) for own in zip(*counts, strict=True)]
    return max(starts)


def skipped_sources(seen: Seen) -> int:
    """Sources with tokens of which none has a route, over all exchanges."""
    return sum(len(one.x) > 0 and bool((one.topk_idx < 0).all()) for turn in seen.turns for one in turn.sent)


def skewed_exchanges(seen: Seen) -> int:
    """Exchanges whose busiest expert has several times an even share."""
    busiest = [np.bincount(_routed(turn), minlength=seen.shape.num_experts) for turn in seen.turns]
    return sum(bool(counts.max() > _BUSY * counts.mean()) for counts in busiest)


def small_spread_sources(seen: Seen) -> int:
    """Sources of one token whose routes reach every FFN rank, over all exchanges."""
    single = [one.topk_idx for turn in seen.turns for one in turn.sent if len(one.x) == 1]
    ranks = [np.unique(ids[ids >= 0] // seen.shape.experts_per_rank) for ids in single]
    return sum(len(reached) == seen.shape.layout.ffn_ranks for reached in ranks)


def late_exchanges(seen: Seen) -> int:
    """Exchanges that show the pause."""
    return seen.late


def changed_replays(seen: Seen) -> int:
    """Replays with other ids and other rows than the one before."""
    changed = [_differ(before, after) for before, after in pairwise(seen.turns)]
    return sum(changed) if seen.replays >= len(seen.turns) else 0


def bucket_changes(seen: Seen) -> int:
    """Exchanges with another bucket than the one before, once each bucket of the cycle has come back."""
    changes = sum(before.bucket != after.bucket for before, after in pairwise(seen.turns))
    return changes if len(seen.turns) > len(seen.trial.case.buckets) else 0


def reused_counts(seen: Seen) -> int:
    """Host counts compared once the next exchange was under way."""
    return seen.counted


def informed_ranks(seen: Seen) -> int:
    """Ranks told of the failure, if these are all."""
    return seen.informed if seen.informed == seen.shape.layout.num_ranks else 0


def loaded_switches(seen: Seen) -> int:
    """Controls that the loaded library reports, if these are all that were asked for."""
    asked = dict(Arm.parse(seen.trial.arm).switches)
    return len(asked) if dict(seen.switches) == asked else 0


def role_switches(seen: Seen) -> int:
    """Ranks that have the control of their role alone, if these are all FFN ranks."""
    return seen.alone if seen.alone == seen.shape.layout.ffn_ranks else 0


def refused_ranks(seen: Seen) -> int:
    """Ranks that refused to be made unlike their peers, if these are all."""
    return seen.refused if seen.refused == seen.shape.layout.num_ranks else 0


def found_bits(seen: Seen) -> int:
    """Wrong bits that the comparison found."""
    return seen.found


WITNESSES: dict[str, Callable[[Seen], int]] = {
    one.__name__.replace("_", " "): one
    for one in (
        *(full_exchanges, empty_sources, idle_exchanges, skipped_sources, skewed_exchanges, small_spread_sources),
        *(late_exchanges, changed_replays, bucket_changes, reused_counts, informed_ranks, loaded_switches),
        *(role_switches, refused_ranks, found_bits),
    )
}
"""By the words a case names them with."""


def _is_full(sent: Sent, bucket: int) -> bool:
    return len(sent.x) == bucket and bool((sent.topk_idx >= 0).any(axis=1).all())


def _routed(turn: Turn) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    ids = np.concatenate([one.topk_idx.ravel() for one in turn.sent]).astype(np.int64)
    return ids[ids >= 0]


def _differ(before: Turn, after: Turn) -> bool:
    pairs = [one for one in zip(before.sent, after.sent, strict=True) if len(one[0].x) and len(one[1].x)]
    ids = any(a.topk_idx.tobytes() != b.topk_idx.tobytes() for a, b in pairs)
    return ids and any(a.x.tobytes() != b.x.tobytes() for a, b in pairs)
