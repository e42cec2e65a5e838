"""Trials of faults whose command is cut short: what was played is told and recorded before its start has ended."""

import pytest

from harness.faults import offline, page, recording
from harness.faults.judging import judge
from harness.faults.on_gpus import play_all
from harness.faults.part import FAULT, MISMATCH, Report
from harness.records.faults import read_faults
from tests.harness.test_faults import DIGEST, TWO_H200, Starts, job_of


def test_what_all_ranks_have_spoken_of_is_told_before_their_start_has_ended(tmp_path):
    told, starts = [], Starts([MISMATCH, FAULT])

    def cut(start, listen):
        starts(start, listen)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(play_all(job_of(3), tmp_path, TWO_H200, lambda line: None, cut, listen=told.append))
    assert [one.outcome for one in told] == ["caught: mismatch", "caught: device fault"]


def test_a_command_that_is_cut_short_leaves_its_record_with_what_was_not_played(tmp_path, monkeypatch):
    offline.write(tmp_path, job_of(3))
    played = judge(job_of(1).trials[0], DIGEST, {0: Report(told=(0,)), 1: Report(told=(0,))}, {})

    def cut(*_, listen):
        listen(played)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(offline, "play_all", cut)
    with pytest.raises(KeyboardInterrupt):
        offline.main(tmp_path, tmp_path / "out", lambda line: None)
    (left,) = (tmp_path / "out").glob("*.parquet")
    records = read_faults(left)
    assert [one.outcome for one in records] == ["passed", "void", "void"]
    assert "Cut short: 2 of 3 trials on GPUs were not played." in page.text("x", records)
    assert recording.status_of(records) == 3
