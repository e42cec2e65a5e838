"""From what came of hunts and trials to their records, the page of these, and the exit status."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from harness.digests import harness_digest
from harness.faults import page
from harness.faults.hunting import Hunted
from harness.faults.judging import FAILED, NOT_PLAYED, VOID, Outcome
from harness.faults.trials import Trial
from harness.records.faults import FaultRecord, read_faults
from harness.surroundings import FOUND, NOTHING, OK
from harness.workspace import REPOSITORY, write_page

SIMULATED_MACHINE = "h100-nvlink, small"
"""What `afdep.proof.hunt.small_machine` is called."""


def of_gpus(outcomes: Sequence[Outcome], command: str, ended: datetime) -> list[FaultRecord]:
    """The records of trials on GPUs."""
    created, digest = ended.isoformat(timespec="seconds"), harness_digest(REPOSITORY)
    return [_of_trial(one, command, created, digest) for one in outcomes]


def with_missing(trials: Sequence[Trial], outcomes: Mapping[Trial, Outcome]) -> list[Outcome]:
    """What came of each trial in order; one that was not played is void."""
    return [outcomes.get(one) or Outcome(one, VOID, NOT_PLAYED) for one in trials]


def _of_trial(one: Outcome, command: str, created: str, digest: str) -> FaultRecord:
    trial, shape = one.trial, one.trial.shape
    return FaultRecord(
        command=command,
        created=created,
        harness_digest=digest,
        backend="cuda",
        machine=one.machine or "none",
        ranks_per_gpu=one.ranks_per_gpu,
        control=trial.control,
        arm=trial.arm,
        layout=trial.layout,
        late=trial.late,
        late_us=trial.late_us,
        native_digest=one.digest,
        hidden=shape.hidden,
        num_experts=shape.num_experts,
        top_k=shape.top_k,
        tokens=shape.tokens,
        transport_sms=shape.transport_sms,
        expects=trial.expects,
        outcome=one.outcome,
        reason=one.reason,
        exchanges=one.exchanges,
        exact=one.exact,
        seeds=None,
        marked=one.marked,
        seconds=one.seconds,
    )


def of_hunts(hunts: Sequence[Hunted], command: str, ended: datetime) -> list[FaultRecord]:
    """The records of hunts."""
    created, digest = ended.isoformat(timespec="seconds"), harness_digest(REPOSITORY)
    return [_of_hunt(one, command, created, digest) for one in hunts]


def _of_hunt(one: Hunted, command: str, created: str, digest: str) -> FaultRecord:
    return FaultRecord(
        command=command,
        created=created,
        harness_digest=digest,
        backend="sim",
        machine=SIMULATED_MACHINE,
        ranks_per_gpu=1,
        control=one.control,
        arm=one.arm,
        layout=None,
        late=None,
        late_us=0,
        native_digest=one.digest,
        **dict.fromkeys(("hidden", "num_experts", "top_k", "tokens", "transport_sms", "exchanges", "exact", "marked")),
        expects=one.expects,
        outcome=one.outcome,
        reason=one.reason,
        seeds=one.seeds,
        seconds=round(one.seconds, 3),
    )


def report(records: Path, target: Path) -> Path:
    """Write the page of a record file."""
    return write_page(target, page.text(target.stem, read_faults(records)))


def status_of(records: Sequence[FaultRecord]) -> int:
    """The exit status: 1 where kernels that had to be exact are not, 3 where all is void or some was not played."""
    outcomes = {one.outcome for one in records}
    if FAILED in outcomes:
        return FOUND
    return NOTHING if outcomes <= {VOID} or page.not_played(records) else OK
