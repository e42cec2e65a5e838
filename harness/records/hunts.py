"""Records of hunts: one row for each arm that was hunted, in a file of its own for each command."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.old_files import own_name
from harness.records.typed import read_table, write_table

HUNT_SCHEMA_VERSION = 1
_VERSION = "hunt_schema_version"


@dataclass(frozen=True, kw_only=True)
class HuntRecord:
    """The hunt of one arm.

    Args:
        command: as it was typed.
        created: when it ended, in UTC.
        native_digest: of the library that was hunted, as it reports it.
        protocol: the kernels that it ran.
        hunt: what its seeds exchange, as JSON.
        first_seed, last_seed: of the seeds that were asked for.
        seeds_run: how many of them ran.
        failed_seeds: those that failed, in order.
        findings: how each of them fails, in words.
    """

    command: str
    created: str
    native_digest: str
    protocol: str
    arm: str
    hunt: str
    first_seed: int
    last_seed: int
    seeds_run: int
    failed_seeds: tuple[int, ...]
    findings: tuple[str, ...]


def write_hunts(directory: Path, records: Sequence[HuntRecord], name: str | None = None) -> Path:
    """Write the records of one command as a new file, under a random name where none is given.

    Raises:
        FileExistsError: there is a file of that name.
    """
    return write_table(directory, name or own_name("hunt"), HUNT_SCHEMA_VERSION, records, _VERSION)


def read_hunts(path: Path) -> tuple[HuntRecord, ...]:
    """The records of one file.

    Raises:
        DamagedTableError: another version or schema, or other rows than were written.
    """
    return read_table(path, HUNT_SCHEMA_VERSION, HuntRecord, _VERSION)
