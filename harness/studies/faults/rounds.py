"""What a rank does in a trial, without a GPU in sight: rounds until one is not exact, and what it says of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from afdep.device_errors import DeviceError
from afdep.errors import AfdepError, MismatchError
from harness.records.errors import HarnessError
from harness.studies.faults.trials import EXACT
from harness.study import VoidError

MISMATCH, NAMED, FAULT, STUCK = "mismatch", "named error", "device fault", "hang"
HUNT, RACES = "hunt", "race checker"
KINDS = (FAULT, STUCK, NAMED, MISMATCH, HUNT, RACES)
"""What finds a fault: what kernels end in on GPUs, the one that says the most first, since a rank that faults leaves
its peers to time out; and on the simulator what looks for it.
"""

LOST = "lost rank"
"""What a rank ends in that a peer or the harness fails: it says nothing of kernels."""

ENDING = (FAULT, STUCK)
"""Those behind which a process is of no more use."""

_RAISED = ((MismatchError, MISMATCH), (DeviceError, FAULT), (AfdepError, NAMED))


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


def run_trial(
    make: Callable[[], Any], rounds: int, agree: Callable[[str], Sequence[str]], facts: dict[str, Any]
) -> bool:
    """A rank's part of a trial, from the making of its Buffer to its giving back; collective.

    Args:
        make: this rank: `digest` of the loaded library, `exchanges` of a round, `run_round(number)`, which gives how
            many of them were exact or raises what ended them, `marks()` of the places that ran, and `close()`.
        rounds: at most; the first that is not exact on some rank is the last.
        agree: what every rank's round ended in, by rank; collective.
        facts: takes what this rank says, as JSON takes it: what it `ended` in; `exchanges` that it ran, those of the
            last round included; how many of these were compared and `exact`; `marks`: numbers of the places that ran;
            the `digest`; and, where not all went well, `failed`, in words.

    Returns:
        Whether this process can run another trial.

    Raises:
        VoidError: of the rank's making.
    """
    facts.update(ended=EXACT, exchanges=0, exact=0, marks=())
    try:
        with _noted(facts):
            rank = make()
        if facts["ended"] == EXACT:
            _run_rounds(rank, rounds, agree, facts)
        if facts["ended"] not in ENDING:
            agree(EXACT)
            return True
    except VoidError:
        raise
    except Exception as error:
        before = f"{facts['failed']}; then " if "failed" in facts else ""
        facts.update(ended=facts["ended"] if before else LOST, failed=before + words(error))
    return False


def _run_rounds(rank: Any, rounds: int, agree: Callable[[str], Sequence[str]], facts: dict[str, Any]) -> None:
    facts["digest"] = rank.digest
    for number in range(rounds):
        facts["exchanges"] += rank.exchanges
        with _noted(facts):
            facts["exact"] += rank.run_round(number)
        facts["marks"] = rank.marks()
        if facts["ended"] in ENDING:
            return
        if set(agree(facts["ended"])) != {EXACT}:
            break
    rank.close()


@contextmanager
def _noted(facts: dict[str, Any]) -> Iterator[None]:
    """What an error says of kernels becomes facts; one that says nothing of them goes on."""
    try:
        yield
    except Exception as error:
        if (kind := kind_of(error)) is None:
            raise
        facts.update(ended=kind, failed=words(error), exact=facts["exact"] + getattr(error, "exact", 0))


def kind_of(error: Exception) -> str | None:
    """What an exception says of kernels: a fault where CUDA itself refuses; None where a peer or the harness fails."""
    of_torch = FAULT if isinstance(error, RuntimeError) and "CUDA error" in str(error) else None
    return getattr(error, "kind", None) or next(
        (kind for raised, kind in _RAISED if isinstance(error, raised)),
        of_torch,
    )


def words(error: Exception) -> str:
    """An exception in one line."""
    text = next(iter(str(error).splitlines()), "no message")
    return text if isinstance(error, RoundError) else f"{type(error).__name__}: {text}"
