"""All that is archived of H200s was measured with one state of the kernels."""

import pytest

from harness.desk.desk import real
from harness.records import read, record_files
from harness.studies.screen.settings import EXTERNAL

RECORDS = real().root / "records"
OTHERS = {
    "validate": ("trials", {}),
    "faults": ("faults", {"control": "as shipped"}),
    "sanitize": ("sanitized", {"tree": "sound"}),
}
"""By folder the table of what else was run, and what its rows say that ran the kernels as they are."""


def screens(name):
    rows = read(record_files(RECORDS / "screen" / name)).rows
    return {row["loaded_digest"] for row in rows if row["arm"] not in EXTERNAL}


@pytest.fixture(scope="module")
def digests():
    return screens("h200")


def test_the_screens_are_of_one_native_digest(digests):
    assert len(digests) == 1


def test_screens_of_ranks_that_share_gpus_are_of_that_digest(digests):
    assert screens("h200-colocated") == digests


@pytest.mark.parametrize("folder", OTHERS)
def test_all_other_evidence_is_of_that_digest(digests, folder):
    table, wanted = OTHERS[folder]
    rows = read(sorted((RECORDS / folder).glob("h200*.parquet"))).rows
    own = [row for row in rows if row["table"] == table and {**row, **wanted} == row]
    assert {row["native_digest"] for row in own} - {None} == digests
