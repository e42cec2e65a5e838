"""What a rank does in a trial, without a GPU in sight: rounds until one is not exact; and what all ranks make of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from afdep.device_errors import DeviceError
from afdep.errors import AfdepError, MismatchError
from harness.records.envelope import VOID
from harness.records.errors import HarnessError
from harness.study import Ended, VoidError

EXACT, MISMATCH, NAMED, FAULT, STUCK, LEFT = "exact", "mismatch", "named error", "device fault", "hang", "peer lost"
BROKEN = "harness error"
"""What a rank's rounds end in. The last is an error that neither kernels nor CUDA have raised, and says nothing."""

WEIGHT = (FAULT, STUCK, NAMED, MISMATCH)
"""What kernels can end in, the one that says the most first: a rank that faults leaves its peers to time out."""

ENDING = (FAULT, STUCK, LEFT, BROKEN)
"""Those that end its process."""


class RoundError(HarnessError):
    """Why a round is not exact.

    Args:
        kind: one of the words above.
        reason: in words.
        exact: exchanges ahead of the first that differs.
    """

    def __init__(self, kind: str, reason: str, exact: int = 0):
        super().__init__(reason, "Its trial ends here: its record has what every rank says.")
        self.kind, self.exact = kind, exact


@dataclass
class Report:
    """What a rank says of a trial; plain data, as JSON takes it.

    Args:
        ended: one of the words above.
        reason: in words, or None where all is exact.
        exchanges: run by this rank, those of the last round included.
        exact: of these, compared and without a difference.
        marks: numbers of the places that ran on this rank.
        digest: of the loaded library, as it reports it.
    """

    ended: str = EXACT
    reason: str | None = None
    exchanges: int = 0
    exact: int = 0
    marks: tuple[int, ...] = ()
    digest: str | None = None

    def leave(self, lost: Exception) -> None:
        """This rank can run no other trial, for a peer's sake or its own; what it has found before stays."""
        before = None if self.ended == EXACT else f"{self.reason}; then "
        self.ended, self.reason = LEFT if before is None else self.ended, f"{before or ''}{words(lost)}"


Agree = Callable[[str], Sequence[str]]
"""What every rank's round ended in, by rank; collective. Raises RoundError where a peer is gone."""


def run_rounds(rank: Any, rounds: int, exchanges: int, agree: Agree, report: Report) -> None:
    """Run rounds until one is not exact on some rank, and fill the report.

    Args:
        rank: this one, its Buffer made: `digest` of the loaded library, `marks()` of the places that ran, and
            `run_round(number)`, which gives how many exchanges were exact or raises what ended them.
        rounds: at most.
        exchanges: of a round.
        agree: with the other ranks.
        report: of this rank.
    """
    report.digest = rank.digest
    for number in range(rounds):
        report.exchanges += exchanges
        try:
            report.exact += rank.run_round(number)
        except Exception as error:
            report.exact += getattr(error, "exact", 0)
            report.ended, report.reason = kind_of(error), words(error)
        report.marks = tuple(rank.marks())
        if report.ended in ENDING:
            return
        try:
            if any(one != EXACT for one in agree(report.ended)):
                return
        except RoundError as lost:
            report.leave(lost)
            return


def kind_of(error: Exception) -> str:
    """What an exception says of the device: a fault where CUDA itself refuses, and nothing where the harness fails."""
    if isinstance(error, RoundError):
        return error.kind
    if isinstance(error, VoidError):
        return VOID
    if isinstance(error, MismatchError):
        return MISMATCH
    if isinstance(error, AfdepError) and not isinstance(error, DeviceError):
        return NAMED
    of_cuda = isinstance(error, DeviceError) or (isinstance(error, RuntimeError) and "CUDA error" in str(error))
    return FAULT if of_cuda else BROKEN


def words(error: Exception) -> str:
    """An exception in one line."""
    text = next(iter(str(error).splitlines()), "no message")
    return text if isinstance(error, RoundError | VoidError) else f"{type(error).__name__}: {text}"


def together(ended: Ended) -> tuple[str | None, str | None]:
    """What the ranks ended in together, and the words of those that say it; None where nobody can tell."""
    said = {rank: one for rank, one in sorted(ended.said.items()) if "ended" in one}
    for kind in (VOID, *WEIGHT):
        if words_of := [f"rank {rank}: {one['reason']}" for rank, one in said.items() if one["ended"] == kind]:
            return kind, "; ".join(words_of)
    if ended.status == VOID:
        return VOID, ended.reason
    silent = [rank for rank in range(ended.num_ranks) if rank not in said]
    gone = [f"rank {rank}: {ended.endings.get(rank, 'said nothing of this trial')}" for rank in silent]
    gone += [f"rank {rank}: {one['reason']}" for rank, one in said.items() if one["ended"] in (LEFT, BROKEN)]
    return (None, "; ".join(gone)) if gone else (EXACT, None)
