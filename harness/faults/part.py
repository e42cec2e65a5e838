"""One rank's part of a trial, without a GPU in sight: rounds until one is not exact, and what the rank says of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from afdep.device_errors import DeviceError
from afdep.errors import AfdepError, MismatchError
from harness.faults.trials import Trial

PART, READY = "fault part", "fault ranks ready"
"""What a rank says of a trial (`trial`, its index, and `report`), and once it can play."""

EXACT, MISMATCH, NAMED, FAULT, STUCK, LEFT = "exact", "mismatch", "named error", "device fault", "hang", "peer lost"
BROKEN = "harness error"
"""What a rank's part ends in. The last one is an error that neither kernels nor CUDA have raised, and says nothing."""

ENDING = (FAULT, STUCK, LEFT, BROKEN)
"""Those that end its process."""


class StuckError(Exception):
    """Kernels of this rank still run although every wait of theirs is bounded."""


class PeerLostError(Exception):
    """Another rank's process is gone, or cannot go on."""


@dataclass
class Report:
    """What a rank says of its part; plain data, as JSON takes it.

    Args:
        ended: one of the words above.
        reason: in words, or None where the part is exact.
        exchanges: played by this rank, those of the last round included.
        exact: of these, compared and without a difference.
        told: numbers of the places that ran on this rank.
        digest: of the loaded library, as it reports it.
        seconds: that the part took.
    """

    ended: str = EXACT
    reason: str | None = None
    exchanges: int = 0
    exact: int = 0
    told: tuple[int, ...] = ()
    digest: str | None = None
    seconds: float = 0.0


class End(Protocol):
    """One rank, its Buffer made, as far as it plays a part."""

    @property
    def digest(self) -> str:
        """Of the loaded library."""

    def told(self) -> Sequence[int]:
        """Numbers of the places that ran."""

    def play_round(self, number: int) -> int:
        """Exchanges one behind the other over poisoned memory, then compared: how many were exact.

        Raises:
            RoundMismatchError, StuckError, AfdepError, RuntimeError
        """


class RoundMismatchError(Exception):
    """A round whose exchanges are not all exact.

    Args:
        exact: those ahead of the first that differs.
        reason: the difference, in words.
    """

    def __init__(self, exact: int, reason: str):
        super().__init__(reason)
        self.exact = exact


Agree = Callable[[str], Sequence[str]]
"""What every rank's round ended in, by rank; collective. Raises PeerLostError."""


def play(trial: Trial, end: End, agree: Agree, report: Report) -> None:
    """Play rounds until one is not exact on some rank, and fill the report."""
    report.digest = end.digest
    for number in range(trial.rounds):
        _round(trial, end, number, report)
        report.told = tuple(end.told())
        if report.ended in ENDING:
            return
        try:
            if any(one != EXACT for one in agree(report.ended)):
                return
        except PeerLostError as lost:
            leave(report, lost)
            return


def leave(report: Report, lost: Exception) -> None:
    """This rank can play no other trial, for a peer's sake or its own; what it has found stays if it has something."""
    if report.ended == EXACT:
        report.ended, report.reason = LEFT, words(lost)
    else:
        report.reason = f"{report.reason}; then {words(lost)}"


def _round(trial: Trial, end: End, number: int, report: Report) -> None:
    report.exchanges += trial.shape.exchanges
    try:
        report.exact += end.play_round(number)
    except RoundMismatchError as wrong:
        report.exact += wrong.exact
        report.ended, report.reason = MISMATCH, str(wrong)
    except Exception as error:
        report.ended, report.reason = kind(error), words(error)


def kind(error: Exception) -> str:
    """What an exception says of the device: a fault where CUDA itself refuses, and nothing where the harness fails."""
    if isinstance(error, StuckError):
        return STUCK
    if isinstance(error, PeerLostError):
        return LEFT
    if isinstance(error, MismatchError):
        return MISMATCH
    if isinstance(error, AfdepError) and not isinstance(error, DeviceError):
        return NAMED
    of_cuda = isinstance(error, DeviceError) or (isinstance(error, RuntimeError) and "CUDA error" in str(error))
    return FAULT if of_cuda else BROKEN


def words(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no message')}"
