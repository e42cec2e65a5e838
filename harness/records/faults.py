"""Records of guards taken away and of places that are late: one row for each hunt and each trial on GPUs."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.typed import read_table, write_table

FAULTS_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class FaultRecord:
    """One control: in the hunt, or on GPUs at one delay.

    Args:
        command: as it was typed.
        created: when the command ended, in UTC.
        harness_digest: of the harness that ran.
        backend: sim or cuda.
        machine: of the simulator, or that of the GPUs; none where there were none.
        ranks_per_gpu: ranks that share a GPU; 1 on the simulator.
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

    command: str
    created: str
    harness_digest: str
    backend: str
    machine: str
    ranks_per_gpu: int
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
    return write_table(directory, name or f"faults-{secrets.token_hex(4)}", FAULTS_VERSION, records)


def read_faults(path: Path) -> tuple[FaultRecord, ...]:
    """The records of one file.

    Raises:
        DamagedTableError: another version or schema, or other rows than were written.
    """
    return read_table(path, FAULTS_VERSION, FaultRecord)
