"""All that is kept of H200s was measured with one state of the kernels."""

import pytest

from harness import arms
from harness.faults.trials import AS_SHIPPED
from harness.records import read
from harness.records.faults import read_faults
from harness.records.sanitizings import read_sanitizing
from harness.records.validations import read_validation
from harness.sanitizer.plants import SOUND
from harness.workspace import REPOSITORY

RECORDS = REPOSITORY / "records"


def screens(name="h200"):
    records = read(sorted(RECORDS.glob(f"{name}/records/*/*.parquet"))).records
    return {one.loaded_digest for one in records if not arms.is_external(one.arm)}


def colocated():
    return screens("h200-colocated")


def validations():
    paths = RECORDS.glob("validation/h200-*.parquet")
    return {one.native_digest for path in paths for one in read_validation(path)} - {None}


def faults():
    return {one.native_digest for one in read_faults(RECORDS / "faults/h200.parquet") if one.control == AS_SHIPPED}


def sanitizings():
    return {one.native_digest for one in read_sanitizing(RECORDS / "sanitizer/h200.parquet") if one.tree == SOUND}


@pytest.mark.parametrize("found", [colocated, validations, faults, sanitizings], ids=lambda one: one.__name__)
def test_screens_and_all_other_evidence_are_of_one_native_digest(found):
    assert len(screens()) == 1
    assert found() == screens()
