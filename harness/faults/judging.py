"""What came of a trial: judged from what all its ranks said, and void where its marks are missing."""

from collections.abc import Mapping
from dataclasses import dataclass

from afdep.layout import Layout
from harness.faults.part import BROKEN, EXACT, FAULT, LEFT, MISMATCH, NAMED, STUCK, Report
from harness.faults.trials import Trial

PASSED, VOID, FAILED = "passed", "void", "failed"
"""A guard that nobody missed; nothing that counts; an end that had to be exact and is not."""

NOT_PLAYED = "not played: the command ended before it"
TIME_OVER = "the time of all starts was over"
"""Why a trial is void that no start has come to."""

_SAYS = {
    MISMATCH: "caught: mismatch",
    NAMED: "caught: named error",
    FAULT: "caught: device fault",
    STUCK: "caught: hang",
}
_WEIGHT = (FAULT, STUCK, NAMED, MISMATCH)
"""What ranks end in, the one that says the most first: a rank that faults leaves its peers to time out."""


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Args:
        trial: what was played.
        outcome: exact, failed, passed, void, or what caught it.
        reason: in words, or None.
        exchanges: played by the rank that played the most.
        exact: compared without a difference, by the rank that has the fewest.
        marked: whether every place that must have run did, on some rank.
        digest: of the loaded library, or None.
        seconds: that its slowest rank took.
        machine: the GPUs by name, or None.
        ranks_per_gpu: ranks that share one.
    """

    trial: Trial
    outcome: str
    reason: str | None = None
    exchanges: int = 0
    exact: int = 0
    marked: bool = False
    digest: str | None = None
    seconds: float = 0.0
    machine: str | None = None
    ranks_per_gpu: int = 1


def judge(trial: Trial, digest: str, reports: Mapping[int, Report], endings: Mapping[int, str]) -> Outcome:
    """What the reports of all ranks make of a trial.

    Args:
        trial: what was played.
        digest: of the library that was built for it.
        reports: by rank; one that said nothing is missing.
        endings: why ranks ended badly, by rank.
    """
    ended, reason = _ended(trial, reports, endings)
    found = sorted({str(report.digest) for report in reports.values() if report.digest})
    told = {place for report in reports.values() for place in report.told}
    marked = set(trial.marked) <= told
    said = _said(trial, ended)
    if found and found != [digest]:
        said, reason = VOID, f"expected the library {digest}, received {', '.join(found)}"
    elif not marked and said != FAILED:
        missing = sorted(set(trial.marked) - told)
        said, reason = VOID, f"places {missing} never ran{'' if reason is None else f'; {reason}'}"
    return Outcome(
        trial,
        said,
        reason,
        exchanges=max((report.exchanges for report in reports.values()), default=0),
        exact=min((report.exact for report in reports.values()), default=0),
        marked=marked,
        digest=found[0] if found else None,
        seconds=max((report.seconds for report in reports.values()), default=0.0),
    )


def _ended(trial: Trial, reports: Mapping[int, Report], endings: Mapping[int, str]) -> tuple[str | None, str | None]:
    """What the ranks ended in together, and the words of those that say it; None where nobody can tell."""
    for kind in _WEIGHT:
        said = [f"rank {rank}: {report.reason}" for rank, report in sorted(reports.items()) if report.ended == kind]
        if said:
            return kind, "; ".join(said)
    silent = [rank for rank in range(Layout.parse(trial.layout).num_ranks) if rank not in reports]
    gone = [f"rank {rank}: {endings.get(rank, 'said nothing of this trial')}" for rank in silent]
    gone += [f"rank {rank}: {report.reason}" for rank, report in reports.items() if report.ended in (LEFT, BROKEN)]
    return (None, "; ".join(gone)) if gone else (EXACT, None)


def _said(trial: Trial, ended: str | None) -> str:
    if trial.expects == EXACT:
        return EXACT if ended == EXACT else FAILED
    if ended is None:
        return VOID
    return PASSED if ended == EXACT else _SAYS[ended]
