"""The constants that were measured on two H200s: the machine file has them, and the page is that of the record."""

from dataclasses import replace

import pytest

from afdep import Machine
from harness.calibrate import page
from harness.records.calibrations import MEASURED, read_calibration
from harness.workspace import REPOSITORY

NAME, CITES = "h200", "record h200, "


@pytest.fixture(scope="module")
def kept():
    return read_calibration(REPOSITORY / "records" / "calibrations" / NAME)


def other_values(kept, table):
    """Constants whose source names the record and whose value is not the record's, to the digits that are written."""
    found = {one.constant: one.value for one in kept.constants if one.status == MEASURED}
    cited = [one for one in table if CITES in one.source]
    return [one.name for one in cited if one.value != pytest.approx(found.get(one.name), rel=5e-4)]


def test_every_constant_of_the_machine_that_names_the_record_has_its_value(kept):
    assert other_values(kept, Machine.load("h200-nvlink").table) == []


def test_every_measured_constant_is_taken_over_or_says_what_it_was_fitted_on(kept):
    sources = {one.name: one.source for one in Machine.load("h200-nvlink").table}
    measured = [one.constant for one in kept.constants if one.status == MEASURED]
    assert len(measured) > 30
    assert [name for name in measured if CITES not in sources[name] and "fitted on" not in sources[name]] == []


def test_a_machine_with_other_values_is_noticed(kept):
    table = Machine.load("h200-nvlink").table
    changed = [replace(one, value=1.01 * one.value) if one.name == "fence_ns" else one for one in table]
    assert other_values(kept, changed) == ["fence_ns"]


def test_the_constants_were_measured_on_two_h200s(kept):
    run = kept.measurement.run
    assert (run.device, run.gpus) == ("NVIDIA H200", 2)
    assert all(one.samples or one.void for one in kept.measurement.readings)


def test_the_page_is_that_of_its_record(kept):
    text = (REPOSITORY / "reports" / "calibrations" / f"{NAME}.md").read_text("utf-8")
    assert text == page.text(NAME, kept)
