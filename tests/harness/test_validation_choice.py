"""Which trials a short run plays, which layouts share a start, and what is kept of a run that is cut short."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from afdep import Layout
from harness.colocation import place
from harness.compose import compose
from harness.errors import HarnessError
from harness.records.validations import read_validation
from harness.validation import journal, offline, page, running
from harness.validation.cases import COVER
from harness.validation.choosing import pairwise
from harness.validation.companies import companies
from harness.validation.journal import NOT_PLAYED, Heading, Journal
from harness.validation.outcome import Outcome
from harness.validation.recording import keep_journal
from harness.validation.settings import validation_settings

ALL_LAYOUTS = ("1A1F", "2A1F", "2A2F", "3A1F", "1A3F", "5A1F")


def choice_of(*texts):
    return validation_settings(compose("validate", ["validation=gpu", "backends=[cuda]", *texts])).choice


@pytest.fixture(scope="module")
def choice():
    return choice_of()


def test_every_case_is_played_on_every_layout(choice):
    full = validation_settings(compose("validate", ["backends=[cuda]"])).trials
    assert {(one.case.name, one.layout) for one in choice.trials} == {(one.case.name, one.layout) for one in full}


def test_a_case_is_played_once_on_a_layout_and_covering_shapes_as_often_as_they_cover(choice):
    counts = Counter((one.case.name, one.layout) for one in choice.trials if one.case.name != COVER)
    assert set(counts.values()) == {1}
    assert len(choice.trials) < 6 * 36


def test_six_layouts_leave_no_pair_of_values_out(choice):
    assert choice.missing == {}


def test_fewer_layouts_leave_pairs_out_and_each_is_named():
    few = choice_of("validation.layouts=[1A1F,2A2F]")
    assert "m2n fp8" in few.missing["bucket-cycle"] or "afdep fp8" in few.missing["bucket-cycle"]
    played = {(one.arm, one.shape.dtype) for one in few.trials if one.case.name == "bucket-cycle"}
    assert not {tuple(pair.split()) for pair in few.missing["bucket-cycle"]} & played
    assert any(line.startswith("left out of bucket-cycle: ") for line in few.lines())


def test_no_trial_asks_for_more_transport_sms_than_six_ranks_of_one_gpu_have(choice):
    assert max(one.shape.transport_sms for one in choice.trials) == 16


def test_the_same_trials_give_the_same_choice(choice):
    assert choice_of() == choice
    assert pairwise(choice.trials).trials == choice.trials


def test_layouts_of_three_ranks_or_more_share_one_start_on_one_gpu():
    assert [one.layouts for one in companies(ALL_LAYOUTS, 1)] == [["1A1F"], ["2A1F", "2A2F", "3A1F", "1A3F", "5A1F"]]


def test_ranks_sit_in_a_company_as_they_do_by_themselves():
    for gpus in (1, 2, 4):
        made = companies(ALL_LAYOUTS, gpus)
        assert sorted(layout for one in made for layout in one.layouts) == sorted(ALL_LAYOUTS)
        for company in made:
            for layout in company.layouts:
                own = place(Layout.parse(layout), gpus)
                assert company.placement.seats[: len(own.seats)] == own.seats
                assert company.placement.is_shared == own.is_shared


@pytest.fixture
def played(choice, tmp_path):
    """A journal of three trials of which two have been played, one to its end."""
    trials = choice.trials[:3]
    book = Journal(tmp_path, Heading("python -m x", "2026-01-02T00:00:00+00:00", "h0", trials))
    book.add(Outcome(trials[0], "ok", elements=7, machine="NVIDIA H200", native_digest="n0", made_s=0.5))
    book.add(Outcome(trials[1], "void", "needs MPS: none"))
    return tmp_path


def heading(folder):
    return journal.read(folder)[0]


def test_a_journal_is_read_as_it_was_written(played, choice):
    found, outcomes = journal.read(played)
    assert found.trials == choice.trials[:3]
    assert [(one.status, one.elements, one.made_s) for one in outcomes] == [("ok", 7, 0.5), ("void", 0, 0.0)]


def test_a_run_that_is_started_again_plays_what_was_not_played(played, choice):
    assert Journal(played, heading(played)).left == choice.trials[1:3]


def test_a_last_line_that_is_half_written_does_no_harm(played, choice):
    path = played / journal.NAME
    path.write_text(path.read_text("utf-8") + '{"trial": {"back', "utf-8")
    book = Journal(played, heading(played))
    book.add(Outcome(choice.trials[2], "ok"))
    assert [one.status for one in journal.read(played)[1]] == ["ok", "void", "ok"]


def test_a_journal_is_never_without_its_whole_lines_while_it_is_opened_again(played, monkeypatch):
    told, path = heading(played), played / journal.NAME
    whole = path.read_text("utf-8")
    path.write_text(whole + '{"trial": {"back', "utf-8")

    def ended(*told, **kinds):
        raise SystemExit

    monkeypatch.setattr(type(path), "write_text", ended)
    Journal(played, told)
    assert path.read_text("utf-8") == whole


@pytest.mark.parametrize("left", ["", '{"command": "pyth'], ids=["empty", "half a heading"])
def test_a_journal_whose_heading_was_never_written_is_begun_anew(played, left):
    told, path = heading(played), played / journal.NAME
    path.write_text(left, "utf-8")
    with pytest.raises(HarnessError, match="expected a journal of trials, received none"):
        journal.read(played)
    assert Journal(played, told).left == told.trials
    assert journal.read(played) == (told, [])


def test_a_journal_of_another_harness_is_refused(played):
    with pytest.raises(HarnessError, match="another"):
        Journal(played, replace(heading(played), harness_digest="h1"))


def test_a_kept_journal_has_every_trial_and_those_not_played_are_void(played, tmp_path):
    path, records = keep_journal(played, tmp_path / "kept")
    assert [(one.status, one.reason) for one in records] == [
        ("ok", None),
        ("void", "needs MPS: none"),
        ("void", NOT_PLAYED),
    ]
    assert records == read_validation(path)
    assert "ran on NVIDIA H200; ranks on the fullest GPU: 1A1F 1" in page.text("kept", records)


def test_a_run_that_is_ended_keeps_what_it_has(choice, tmp_path, monkeypatch):
    trials = tmp_path / "trials.json"
    offline.write(trials, choice.trials[:2])

    def run_all(left, jobs, listen, say, gpus):
        listen(Outcome(left[0], "ok"))
        raise offline.CutShortError

    monkeypatch.setattr(offline, "run_all", run_all)
    assert offline.main(trials, tmp_path / "out", 1) == 3
    (path,) = (tmp_path / "out").glob("*.parquet")
    assert [one.status for one in read_validation(path)] == ["ok", "void"]
    assert len((tmp_path / "out" / journal.NAME).read_text("utf-8").splitlines()) == 2


def test_trials_of_gpus_are_told_once(choice, monkeypatch):
    told = []
    monkeypatch.setattr(running.on_gpus, "found", lambda count: f"needs {count} GPUs")
    outcomes = running.run_all(choice.trials[:3], 1, told.append, gpus=2)
    assert told == outcomes
    assert {one.reason for one in outcomes} == {"needs 2 GPUs"}


def test_fewer_gpus_than_asked_for_are_none(monkeypatch):
    class Done:
        returncode, stdout = 0, json.dumps([1, "NVIDIA H200", 132])

    monkeypatch.setattr(running.on_gpus.subprocess, "run", lambda *told, **kinds: Done)
    assert running.on_gpus.found(2) == "needs 2 GPUs: the driver shows 1"
    assert running.on_gpus.found() == running.on_gpus.Gpus(1, "NVIDIA H200", 132)
