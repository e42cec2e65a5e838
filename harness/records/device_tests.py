"""Records of the tests that need GPUs: one row for each test of one run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.typed import read_table, write_table

DEVICE_TESTS_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class DeviceTestRecord:
    """One test.

    Args:
        created: when the run began, in UTC.
        harness_digest: of the harness that ran.
        native_digest: as the library says that every rank loads.
        machine: the GPUs' name.
        gpus: how many there were.
        test: its id, parameters included, as tests/device/test_lost.py::test_it[killed].
        outcome: passed, failed, error (outside the test itself) or skipped.
        seconds: that it took; a fixture counts with the first test that needs it.
        said: the first line of why it did not pass, or null.
    """

    created: str
    harness_digest: str
    native_digest: str
    machine: str
    gpus: int
    test: str
    outcome: str
    seconds: float
    said: str | None

    @property
    def function(self) -> str:
        """The id without parameters."""
        return self.test.partition("[")[0]


def write_device_tests(path: Path, records: Sequence[DeviceTestRecord]) -> Path:
    """Write the records of one run as a new file."""
    return write_table(path.parent, path.stem, DEVICE_TESTS_VERSION, records)


def read_device_tests(path: Path) -> tuple[DeviceTestRecord, ...]:
    """The records of one file.

    Raises:
        DamagedTableError: another version or schema, or other rows than were written.
    """
    return read_table(path, DEVICE_TESTS_VERSION, DeviceTestRecord)
