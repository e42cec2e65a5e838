"""The verb `validate`: its record, its matrix page, what it keeps and how it ends."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.records.validations import read_validation
from harness.surroundings import Surroundings
from harness.validation import offline, on_gpus, outcome, page
from harness.verbs import validate

ROOT = Path(__file__).resolve().parents[2]
FEW = ["validation=small", "validation.layouts=[1A1F,2A2F]", "jobs=1"]


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch):
    monkeypatch.setattr(on_gpus, "found", lambda count: "needs GPUs: none are here")


@pytest.fixture
def around(tmp_path):
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    return Surroundings(tmp_path, {}, float, lambda: datetime(2026, 1, 2, tzinfo=UTC), lambda line: None)


def test_trials_in_two_processes_are_recorded_in_order_and_kept_with_their_page(around):
    assert validate.run([*FEW[:2], "jobs=2", "cases=[bucket-cycle,host-counts]", "keep=two"], around) == 0
    records = read_validation(around.repository / "records" / "validation" / "two.parquet")
    assert [one.backend for one in records] == ["sim"] * 24 + ["cuda"] * 24
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

    monkeypatch.setitem(outcome.WITNESSES, "late exchanges", nothing)
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


def test_written_trials_are_played_as_they_were_declared_without_the_verb(around):
    played = around.repository / "played"
    assert validate.run([*FEW, "cases=[delayed-source]", "backends=[sim]", "to=trials.json"], around) == 0
    assert offline.main(around.repository / "trials.json", played) == 0
    (path,) = played.glob("*.parquet")
    assert [(one.case, one.status) for one in read_validation(path)] == [("delayed-source", "ok")] * 16


def test_what_was_played_elsewhere_is_kept_with_its_page(around):
    played = around.repository / "played"
    validate.run([*FEW, "cases=[delayed-source]", "backends=[sim]", "to=trials.json"], around)
    offline.main(around.repository / "trials.json", played)
    assert validate.run([*FEW, "source=played", "keep=elsewhere"], around) == 0
    kept = read_validation(around.repository / "records" / "validation" / "elsewhere.parquet")
    assert [(one.case, one.status) for one in kept] == [("delayed-source", "ok")] * 16
    assert kept[0].command == "python -m harness.validation.offline trials.json played"


def test_a_cell_with_several_endings_tells_all_of_them(around):
    validate.run([*FEW, "cases=[skewed-routes]", "backends=[sim]", "keep=one"], around)
    first, *others = read_validation(around.repository / "records" / "validation" / "one.parquet")
    text = page.text("one", [replace(first, status="failed", reason="why"), *others])
    assert "failed 1 [1], ok 7" in text


KEPT = ROOT / "records" / "validation" / "matrix.parquet"
NOT_SIMULATED = {
    "counts on the host are read back on GPUs alone",
    "the ranks of a simulated group have one arm, and this control may differ",
}


def test_the_kept_matrix_is_green_on_every_layout_and_its_voids_say_why():
    simulated = [one for one in read_validation(KEPT) if one.backend == "sim"]
    assert {one.layout for one in simulated} == {"1A1F", "2A1F", "2A2F", "3A1F", "1A3F", "5A1F"}
    assert {one.reason for one in simulated} == {None, *NOT_SIMULATED}
    assert {one.status for one in simulated if one.reason is None} == {"ok"}
    assert all(one.witnessed > 0 for one in simulated if one.status == "ok")
    assert len({one.native_digest for one in simulated if one.status == "ok"}) == 1


def test_the_page_of_the_kept_matrix_is_that_of_its_record():
    text = (ROOT / "reports" / "validation" / "matrix.md").read_text("utf-8")
    assert text == page.text("matrix", read_validation(KEPT))
