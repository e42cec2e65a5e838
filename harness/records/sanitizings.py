"""Records of runs under compute-sanitizer: one row for each rank of each run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.old_files import replace_by
from harness.records.typed import read_table, write_table

SANITIZING_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class SanitizerRecord:
    """One rank of one run.

    Args:
        created: when the runs ended, in UTC.
        harness_digest: of the harness that ran.
        version: of the tool, as it says.
        tool: memcheck or racecheck.
        tree: sound, or the name of the plant in it.
        plant: what the plant does, or null.
        arm: canonical name.
        native_digest: as the loaded library reports it; null where no rank came to say so.
        rank: of 1A1F, FFN first, each on a GPU of its own.
        expects: `silence`, or the kernel that the tool must report an error in.
        exchanges: compared bit for bit without a difference.
        errors: that the tool counts in its summary; null where it came to none.
        in_kernel: whether what it reports names the kernel that is expected.
        exit_code: of the tool; null where the run was ended for its limit.
        seconds: from start to end; 0 where it was not played.
        said: the first lines that the tool said of errors, or an empty text; or that it was not played.
    """

    created: str
    harness_digest: str
    version: str
    tool: str
    tree: str
    plant: str | None
    arm: str
    native_digest: str | None
    rank: int
    expects: str
    exchanges: int
    errors: int | None
    in_kernel: bool
    exit_code: int | None
    seconds: float
    said: str


def write_sanitizing(directory: Path, name: str, records: Sequence[SanitizerRecord]) -> Path:
    """Write the records of one command as NAME.parquet, in the place of what it wrote of them before."""
    later = write_table(directory, f"{name}-later", SANITIZING_VERSION, records)
    return replace_by(later, directory / f"{name}.parquet")


def read_sanitizing(path: Path) -> tuple[SanitizerRecord, ...]:
    """The records of one file.

    Raises:
        DamagedTableError: another version or schema, or other rows than were written.
    """
    return read_table(path, SANITIZING_VERSION, SanitizerRecord)
