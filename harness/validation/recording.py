"""From what came of trials to their records, the page of these, and the exit status."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from harness.digests import harness_digest
from harness.records.validations import ValidationRecord, read_validation, write_validation
from harness.surroundings import FOUND, NOTHING, OK
from harness.validation import journal, page
from harness.validation.outcome import Outcome
from harness.workspace import REPOSITORY, write_page

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
        machine=trial.machine if trial.backend == "sim" else outcome.machine or "none",
        ranks_per_gpu=outcome.ranks_per_gpu,
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


def keep(
    outcomes: Sequence[Outcome], folder: Path, command: str, ended: datetime
) -> tuple[Path, tuple[ValidationRecord, ...]]:
    """Write a new record file into a folder, with its page beside it.

    Returns:
        The file, and the records as read back from it.
    """
    created, digest = ended.isoformat(timespec="seconds"), harness_digest(REPOSITORY)
    path = write_validation(folder, [record(one, command, created, digest) for one in outcomes])
    report(path, path.with_suffix(".md"))
    return path, read_validation(path)


def keep_journal(source: Path, folder: Path) -> tuple[Path, tuple[ValidationRecord, ...]]:
    """As `keep`, of the trials of a journal: those that were not played are void.

    Args:
        source: folder of the journal.
        folder: takes the record file and its page.
    """
    heading, outcomes = journal.read(source)
    told = (heading.command, heading.created, heading.harness_digest)
    path = write_validation(folder, [record(one, *told) for one in journal.all_outcomes(heading, outcomes)])
    report(path, path.with_suffix(".md"))
    return path, read_validation(path)


def report(records: Path, target: Path) -> Path:
    """Write the matrix page of a record file."""
    return write_page(target, page.text(target.stem, read_validation(records)))


def status_of(records: Sequence[ValidationRecord]) -> int:
    """The exit status: 1 where a trial failed, 3 where all are void."""
    found = {one.status for one in records}
    return FOUND if "failed" in found else OK if "ok" in found else NOTHING
