"""Which trials a command runs, and how they share starts of processes."""

from collections import Counter
from dataclasses import replace

import pytest

from afdep.errors import AfdepError
from harness.studies.validate import program
from harness.studies.validate.cases import COVER, left_out, pairwise
from tests.studies.validating import SMALL, settings

GPU = ("validation=gpu", "backends=[cuda]")


def chosen(*texts):
    return settings(*GPU, *texts).chosen("cuda")


@pytest.fixture(scope="module")
def choice():
    return chosen()


def test_every_case_is_run_on_every_layout(choice):
    full = settings().declared("cuda")
    assert {(one.case, one.layout) for one in choice} == {(one.case, one.layout) for one in full}


def test_a_case_is_run_once_on_a_layout_and_covering_shapes_as_often_as_they_cover(choice):
    counts = Counter((one.case, one.layout) for one in choice if one.case != COVER)
    assert set(counts.values()) == {1}
    assert len(choice) < 6 * 36


def test_six_layouts_leave_no_pair_of_values_out(choice):
    assert left_out(settings(*GPU).declared("cuda"), choice) == {}


def test_fewer_layouts_leave_pairs_out_and_each_is_named():
    few = settings(*GPU, "validation.layouts=[1A1F,2A2F]")
    missing = left_out(few.declared("cuda"), few.chosen("cuda"))["bucket-cycle"]
    assert "m2n fp8" in missing or "afdep fp8" in missing
    run = {(one.arm, one.dtype) for one in few.chosen("cuda") if one.case == "bucket-cycle"}
    assert not {tuple(pair.split()) for pair in missing} & run


def test_no_trial_asks_for_more_transport_sms_than_six_ranks_of_one_gpu_have(choice):
    assert max(one.transport_sms for one in choice) == 16


def test_the_same_trials_give_the_same_choice(choice):
    assert chosen() == choice
    assert pairwise(choice) == choice


def test_cases_are_chosen_by_how_their_names_begin():
    names = {one.case for one in settings(SMALL, "cases=[wrong-id,bucket]").chosen("sim")}
    assert names == {"bucket-cycle", *(f"wrong-id-{how}" for how in ("beyond", "below", "wide", "twice"))}


def batches(*texts):
    return [batch for block in program.blocks(settings(*texts), ()) for batch in block.batches]


def test_simulated_trials_come_first_and_share_processes():
    found = batches(SMALL)
    backends = [one.backend for one in found]
    assert backends == sorted(backends, reverse=True)
    sizes = [len(one.trials) for one in found if one.backend == "sim"]
    assert set(sizes[:-1]) == {25}
    assert [trial for one in found if one.backend == "sim" for trial in one.trials] == settings(SMALL).chosen("sim")


def test_ranks_of_gpus_run_the_trials_of_one_layout_for_about_a_minute():
    found = [one for one in batches(SMALL) if one.backend == "cuda"]
    assert all({trial.layout for trial in one.trials} == {one.layout} for one in found)
    assert max(one.expected_s for one in found) < 60
    assert sum(len(one.trials) for one in found) == len(settings(SMALL).chosen("cuda"))


def test_every_trial_of_a_plan_is_distinct_and_counts_by_itself():
    blocks = program.blocks(settings(), ())
    trials = [trial for block in blocks for batch in block.batches for trial in batch.trials]
    assert len(trials) == len(set(trials)) > 2000
    assert {block.on_loss for block in blocks} == {"keep"}
    assert program.blocks(settings(), [program.Record()]) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("validation.every.hidden=[100]", "hidden: expected a multiple"),
        ("validation.every.num_experts=[97]", "num_experts"),
        ("validation.cover.top_k=[33]", "top_k: expected"),
        ("validation.cases.control.control=AFDEP_NOTHING", "AFDEP_NOTHING"),
    ],
)
def test_a_trial_that_the_kernels_do_not_carry_is_refused_before_anything_is_exported(text, words):
    with pytest.raises(AfdepError, match=words):
        program.blocks(settings(SMALL, "validation.cover.hidden=[2048]", text), ())


def test_failed_trials_are_final_and_void_ones_are_not():
    assert program.FINAL == ("ok", "failed")


def test_a_label_tells_the_backends_apart():
    found = settings(SMALL)
    (sim, *_), (cuda, *_) = (found.chosen(backend) for backend in ("sim", "cuda"))
    assert program.label(found, sim) == "sim cover: 1A1F 2048 bf16 random T=32 m2n eager"
    assert program.label(found, replace(cuda, backend="sim")) == program.label(found, sim)
