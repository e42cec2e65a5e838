"""From what came of a trial to its record."""

from harness.records.validations import ValidationRecord
from harness.validation.playing import Outcome

_SHARED = ("hidden", "dtype", "num_experts", "top_k", "transport_sms", "routing", "tokens")


def record(outcome: Outcome, command: str, created: str, harness_digest: str) -> ValidationRecord:
    """The record of an outcome.

    Args:
        outcome: what came of a trial.
        command: as it was typed.
        created: in UTC.
        harness_digest: of the harness that ran.
    """
    trial, case = outcome.trial, outcome.trial.case
    return ValidationRecord(
        command=command,
        created=created,
        harness_digest=harness_digest,
        backend=trial.backend,
        machine=trial.machine if trial.backend == "sim" else "none",
        ranks_per_gpu=1,
        case=case.name,
        shows=case.shows,
        layout=trial.layout,
        arm=trial.arm,
        native_digest=outcome.native_digest,
        protocol=outcome.protocol,
        **{name: getattr(trial.shape, name) for name in _SHARED},
        buckets=", ".join(map(str, case.buckets or (trial.shape.tokens,))),
        mode=trial.mode,
        seed=trial.seed,
        expects=case.expects,
        status=outcome.status,
        reason=outcome.reason,
        exchanges=outcome.exchanges,
        free_exchanges=outcome.free,
        elements=outcome.elements,
        witness=case.witness,
        witnessed=outcome.witnessed,
        cpu_s=outcome.cpu_s,
    )
