"""Records of validations: one row for each trial, in a file of its own for each command."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.old_files import own_name
from harness.records.trials import TrialRecord
from harness.records.typed import read_table, write_table

VALIDATION_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ValidationRecord(TrialRecord):
    """One trial of one case. The first columns are those of every TrialRecord.

    Args:
        case, shows: its name, and what it shows in words.
        native_digest, protocol: as the loaded library reports them; null where none was loaded.
        tokens: of a source that sends all it has.
        buckets: classes of tokens, in turn, in words.
        mode: eager or graph.
        expects: exact, or the error that every rank must raise.
        status: ok, failed or void.
        reason: why it is not ok; else null.
        exchanges: compared bit for bit without a difference.
        free_exchanges: how many of them ran one behind the other, of which received rows are compared in the last.
        elements: compared, of rows, weights and scales.
        witness: what must have happened for the trial to count.
        witnessed: how often it did.
        cpu_s: of the process that played it.
    """

    case: str
    shows: str
    layout: str
    arm: str
    native_digest: str | None
    protocol: str | None
    hidden: int
    dtype: str
    num_experts: int
    top_k: int
    transport_sms: int
    routing: str
    tokens: int
    buckets: str
    mode: str
    seed: int
    expects: str
    status: str
    reason: str | None
    exchanges: int
    free_exchanges: int
    elements: int
    witness: str
    witnessed: int
    cpu_s: float


def write_validation(directory: Path, records: Sequence[ValidationRecord]) -> Path:
    """Write the records of one command as a new file under a random name."""
    return write_table(directory, own_name("validation"), VALIDATION_VERSION, records)


def read_validation(path: Path) -> tuple[ValidationRecord, ...]:
    """The records of one file.

    Raises:
        DamagedTableError: another version or schema, or other rows than were written.
    """
    return read_table(path, VALIDATION_VERSION, ValidationRecord)
