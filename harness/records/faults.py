"""Records of guards taken away and of places that are late: one row for each hunt and each trial on GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.old_files import own_name, replace_by
from harness.records.trials import TrialRecord
from harness.records.typed import read_table, write_table

FAULTS_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class FaultRecord(TrialRecord):
    """One control: in the hunt, or on GPUs at one delay. The first columns are those of every TrialRecord.

    Args:
        control: what is wrong, or that nothing is.
        arm: canonical name.
        layout: played on; null in a hunt, whose seeds draw theirs.
        late: what is late; null: nothing. The simulator delays of its own accord.
        late_us: how long each thread is held there.
        native_digest: of the edited tree as its library reports it; null where none was loaded. An edit for GPUs holds
            marks and delays too, so that its digest is not the hunt's.
        hidden, num_experts, top_k, tokens, transport_sms: of the exchanges on GPUs; null in a hunt.
        expects: exact, or caught.
        outcome: exact, passed, void or failed, or what caught it.
        reason: in words; null where there is none.
        exchanges: played on GPUs, until one was not exact; null in a hunt.
        exact: of these, compared and without a difference; null in a hunt.
        seeds: that were hunted, the last of which found it; null on GPUs.
        marked: whether every place that must have run said so; null in a hunt.
        seconds: that it took.
    """

    control: str
    arm: str
    layout: str | None
    late: str | None
    late_us: int
    native_digest: str | None
    hidden: int | None
    num_experts: int | None
    top_k: int | None
    tokens: int | None
    transport_sms: int | None
    expects: str
    outcome: str
    reason: str | None
    exchanges: int | None
    exact: int | None
    seeds: int | None
    marked: bool | None
    seconds: float


def write_faults(directory: Path, records: Sequence[FaultRecord], name: str | None = None) -> Path:
    """Write the records of one command as a new file, under a random name where none is given.

    Raises:
        FileExistsError: there is a file of that name.
    """
    return write_table(directory, name or own_name("faults"), FAULTS_VERSION, records)


def rewrite_faults(path: Path, records: Sequence[FaultRecord]) -> Path:
    """Write what a command knows by now in the place of what it knew before."""
    return replace_by(write_faults(path.parent, records, f"{path.stem}-later"), path)


def read_faults(path: Path) -> tuple[FaultRecord, ...]:
    """The records of one file.

    Raises:
        DamagedTableError: another version or schema, or other rows than were written.
    """
    return read_table(path, FAULTS_VERSION, FaultRecord)
