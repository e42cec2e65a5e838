"""The verb `validate`: its record, its matrix page, what it keeps and how it ends."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.records.validations import read_validation
from harness.surroundings import Surroundings
from harness.validation import page, playing
from harness.verbs import validate

ROOT = Path(__file__).resolve().parents[2]
FEW = ["validation=small", "validation.layouts=[1A1F,2A2F]", "jobs=1"]


@pytest.fixture
def around(tmp_path):
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    return Surroundings(tmp_path, {}, float, lambda: datetime(2026, 1, 2, tzinfo=UTC), lambda line: None)


def test_trials_in_two_processes_are_recorded_in_order_and_kept_with_their_page(around):
    assert validate.run([*FEW[:2], "jobs=2", "cases=[bucket-cycle,host-counts]", "keep=two"], around) == 0
    records = read_validation(around.repository / "records" / "validation" / "two.parquet")
    assert [one.backend for one in records] == ["sim"] * 32 + ["cuda"] * 32
    assert {one.status for one in records[:16]} == {"ok"}
    assert all(one.elements > 0 and one.native_digest.startswith("n") for one in records[:16])
    text = (around.repository / "reports" / "validation" / "two.md").read_text("utf-8")
    assert text == page.text("two", records)


def test_a_kept_record_is_never_replaced(around):
    told = [*FEW, "cases=[delayed-source]", "backends=[sim]", "keep=once"]
    assert validate.run(told, around) == 0
    with pytest.raises(HarnessError, match="expected a new name"):
        validate.run(told, around)


def test_trials_that_are_all_void_end_with_status_3(around):
    assert validate.run([*FEW, "cases=[cover]", "backends=[cuda]"], around) == 3


def test_a_failed_trial_ends_with_status_1_and_stands_on_the_page(around, monkeypatch):
    def nothing(seen):
        return 0

    monkeypatch.setitem(playing.WITNESSES, "late exchanges", nothing)
    assert validate.run([*FEW, "cases=[delayed-source]", "backends=[sim]", "keep=bad"], around) == 1
    text = (around.repository / "reports" / "validation" / "bad.md").read_text("utf-8")
    assert "| delayed-source | failed 8 [1]" in text
    assert "- [1] failed: delayed-source 1A1F m2n bf16 eager: witness: expected late exchanges, counted none" in text


def test_simulated_and_measured_trials_stand_in_tables_of_their_own(around):
    validate.run([*FEW, "cases=[skewed-routes]", "keep=both"], around)
    text = page.text("both", read_validation(around.repository / "records" / "validation" / "both.parquet"))
    simulated, measured = text.partition("## Measured")[::2]
    assert "ok 8" in simulated
    assert "void" not in simulated.partition("## Simulated")[2]
    assert "ok 8" not in measured.partition("## Cases")[0]


def test_a_cell_with_several_endings_tells_all_of_them(around):
    validate.run([*FEW, "cases=[skewed-routes]", "backends=[sim]", "keep=one"], around)
    first, *others = read_validation(around.repository / "records" / "validation" / "one.parquet")
    text = page.text("one", [replace(first, status="failed", reason="why"), *others])
    assert "failed 1 [1], ok 7" in text
