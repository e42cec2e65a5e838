"""The page of device records shows what the kept records say, and a run becomes records that the store takes."""

import dataclasses

import pytest

from harness.device import page, recording
from harness.device.launch import Outcome
from harness.device.settings import Settings
from harness.errors import UsageError
from harness.records import read, record_files, write
from harness.workspace import REPOSITORY

KEPT = REPOSITORY / "records" / "h200"


def outcome(**changes):
    identity = {"digest": "n12345678", "target": "cuda", "protocol": "m2n", "switches": {}, "windows": "symmetric"}
    ranks = {
        rank: {
            "rank": rank,
            "role": role,
            "identity": identity,
            "registered_bytes": 1,
            "device": "GPU",
            "cells": [{"tokens": 1, "samples_us": [10.0 + rank, 12.0, 14.0]}],
        }
        for rank, role in enumerate(["ffn", "attention"])
    }
    return dataclasses.replace(Outcome(Settings(tokens=(1,)), 0, ranks, ""), **changes)


def test_the_kept_page_is_the_one_of_the_kept_records():
    records = read(record_files(KEPT)).records
    assert (REPOSITORY / "reports" / "h200.md").read_text("utf-8") == page.text(records)


def test_every_kept_record_is_a_measurement_on_gpus():
    assert {(record.backend, record.status) for record in read(record_files(KEPT)).records} == {("cuda", "ok")}


def test_a_run_becomes_one_record_a_rank(tmp_path):
    write(tmp_path, recording.records(outcome(), 0, "t0", "h0"))
    found = read(record_files(tmp_path)).records
    assert [(record.role, record.latency_us) for record in found] == [("ffn", 12.0), ("attention", 12.0)]


def test_a_cell_is_its_slowest_attention_rank():
    assert page.cell_us(recording.records(outcome(), 0, "t0", "h0")) == 12.0


def test_a_rank_that_leaves_nothing_makes_the_run_a_failure():
    only = {0: outcome().ranks[0]}
    (record,) = recording.records(outcome(ranks=only), 0, "t0", "h0")
    assert (record.status, record.fail_reason) == ("failed", "rank 1 left nothing")


def test_another_arm_is_another_process_of_the_same_settings():
    one, other = (recording.records(outcome(settings=Settings(tokens=(1,), arm=arm)), 0, "t0", "h0")[0] for arm in "ab")
    assert one.plan_hash == other.plan_hash
    assert one.process_key != other.process_key


@pytest.mark.parametrize("word", ["hiden=1", "hidden=big", "tokens=1,x"])
def test_a_word_that_names_no_setting_is_refused(word):
    with pytest.raises(UsageError):
        Settings.parse([word])


@pytest.mark.parametrize(("gpus", "sharing", "placement"), [(2, 1, "one rank a GPU"), (1, 2, "2 ranks a GPU")])
def test_ranks_that_share_a_gpu_are_recorded_as_such(gpus, sharing, placement):
    ranks = {rank: found | {"gpus": gpus} for rank, found in outcome().ranks.items()}
    found = recording.records(outcome(ranks=ranks), 0, "t0", "h0")
    assert {(one.ranks_per_gpu, one.placement) for one in found} == {(sharing, placement)}
