"""What records of trials say first, whatever was tried: the command that played it, when, and on what."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One trial.

    Args:
        command: as it was typed.
        created: when the command ended, in UTC.
        harness_digest: of the harness that ran.
        backend: sim or cuda.
        machine: of the simulator, or that of the GPUs; none where there were none.
        ranks_per_gpu: ranks that share a GPU; 1 on the simulator.
    """

    command: str
    created: str
    harness_digest: str
    backend: str
    machine: str
    ranks_per_gpu: int
