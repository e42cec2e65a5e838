"""What came of a trial, and whether what its case claims has happened."""

from dataclasses import dataclass, replace

from harness.validation.cases import Trial
from harness.validation.witness import WITNESSES, Seen


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Args:
        trial: what was asked for.
        status: ok, failed or void.
        reason: why it is not ok, else None.
        exchanges: compared bit for bit without a difference.
        free: how many of them ran one behind the other.
        elements: compared.
        witnessed: how often what its case claims has happened.
        native_digest, protocol: as the loaded library reports them; None where none was loaded.
        cpu_s: of the process that played it; none is counted on GPUs.
        machine: the GPUs by name, or None.
        ranks_per_gpu: ranks that share one.
        made_s, played_s: what the slowest rank took to make its Buffer, and to play.
    """

    trial: Trial
    status: str
    reason: str | None = None
    exchanges: int = 0
    free: int = 0
    elements: int = 0
    witnessed: int = 0
    native_digest: str | None = None
    protocol: str | None = None
    cpu_s: float = 0.0
    machine: str | None = None
    ranks_per_gpu: int = 1
    made_s: float = 0.0
    played_s: float = 0.0


def judged(outcome: Outcome, seen: Seen) -> Outcome:
    """The outcome with its witness counted; a trial that counts none has failed."""
    case = seen.trial.case
    count = WITNESSES[case.witness](seen)
    if count:
        return replace(outcome, witnessed=count)
    return replace(outcome, status="failed", reason=f"witness: expected {case.witness}, counted none")
