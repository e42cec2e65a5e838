"""The constants that were measured on two H200s: the machine file has them, and the report is that of the record."""

from dataclasses import replace

import pytest

from afdep import Machine
from harness.errors import ReportError
from harness.records import table
from harness.report.results import Part, Results
from harness.studies.calibrate import report
from harness.studies.calibrate.program import Record
from harness.studies.calibrate.rules import MEASURED, judge
from tests.studies.bench import ROOT, settings_of

NAME, CITES = "h200", "record h200, "


@pytest.fixture(scope="module")
def archived():
    reading = table.read(table.record_files(ROOT / "records" / "calibrate" / NAME))
    assert not reading.quarantined
    return Results("calibrate", NAME, (Part(None, reading),))


def other_values(archived, machine_table):
    """Constants whose source names the record and whose value is not the record's, to the digits that are written."""
    found = {one.base.name: one.value for one in report.constants(archived.parts[0]) if one.outcome == MEASURED}
    cited = [one for one in machine_table if CITES in one.source]
    return [one.name for one in cited if one.value != pytest.approx(found.get(one.name), rel=5e-4)]


def test_every_constant_of_the_machine_that_names_the_record_has_its_value(archived):
    assert other_values(archived, Machine.load("h200-nvlink").table) == []


def test_every_measured_constant_is_taken_over_or_says_what_it_was_fitted_on(archived):
    sources = {one.name: one.source for one in Machine.load("h200-nvlink").table}
    measured = [one.base.name for one in report.constants(archived.parts[0]) if one.outcome == MEASURED]
    assert len(measured) > 30
    assert [name for name in measured if CITES not in sources[name] and "fitted on" not in sources[name]] == []


def test_a_machine_with_other_values_is_noticed(archived):
    machine_table = Machine.load("h200-nvlink").table
    changed = [replace(one, value=1.01 * one.value) if one.name == "fence_ns" else one for one in machine_table]
    assert other_values(archived, changed) == ["fence_ns"]


def test_the_constants_were_measured_on_two_h200s(archived):
    assert "- 2 x NVIDIA H200; driver 580.159.04, " in report.text(archived)
    assert all(one.samples or one.reason for one in archived.of(Record))


def test_the_readings_give_the_constants_that_were_archived_with_them(archived):
    """Those alone that no constant of the base goes into, since the base has moved on."""
    limits = settings_of("calibrate").limits
    found = {one.base.name: one for one in judge(Machine.load("h200-nvlink"), archived.of(Record), limits)}
    values = {one.base.name: one.value for one in report.constants(archived.parts[0]) if one.outcome == MEASURED}
    drained = {"graph_gap_ns", "pdl_release_ns"}
    assert {name: found[name].value for name in values if name not in drained} == pytest.approx(
        {name: value for name, value in values.items() if name not in drained}
    )


def test_records_without_a_plan_make_no_machine_file(archived, tmp_path):
    with pytest.raises(ReportError, match="received records without a plan"):
        report.products(archived, tmp_path / "new.yaml", ROOT / "conf")


def test_the_report_is_that_of_its_record(archived):
    text = (ROOT / "reports" / "calibrate" / f"{NAME}.md").read_text("utf-8")
    assert report.text(archived) == text
