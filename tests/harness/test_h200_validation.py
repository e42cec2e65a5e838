"""The matrix as H200s played it, on one GPU and on two: every case on every layout, and the pages."""

from dataclasses import replace

import pytest

from harness.compose import compose
from harness.records.validations import read_validation
from harness.validation import page
from harness.validation.settings import validation_settings
from harness.workspace import REPOSITORY

RECORDS = REPOSITORY / "records" / "validation"
LAYOUTS = {
    "h200-one-gpu": {"1A1F": 2, "2A1F": 3, "2A2F": 4, "3A1F": 4, "1A3F": 4, "5A1F": 6},
    "h200-two-gpus": {"1A1F": 1, "2A2F": 2, "3A1F": 3, "1A3F": 3},
}
"""Layouts, with the ranks of each on the fullest GPU."""


@pytest.fixture(scope="module", params=LAYOUTS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def kept(name):
    return read_validation(RECORDS / f"{name}.parquet")


def cases():
    """The cases of the full matrix, by what each expects."""
    trials = validation_settings(compose("validate", ["validation=full", "backends=[cuda]"])).trials
    return {trial.case.name: trial.case.expects for trial in trials}


def unplayed(records, layouts):
    """Cases and layouts of which no trial was exact, or ended as it must."""
    played = {(one.case, one.layout) for one in records if one.status == "ok" and one.witnessed > 0}
    return sorted({(case, layout) for case in cases() for layout in layouts} - played)


def test_every_trial_is_ok_and_what_it_claims_has_happened(kept):
    assert {(one.status, one.reason) for one in kept} == {("ok", None)}
    assert all(one.witnessed > 0 for one in kept)


def test_the_layouts_are_the_listed_ones_with_their_ranks_on_a_gpu(kept, name):
    assert {(one.layout, one.ranks_per_gpu) for one in kept} == set(LAYOUTS[name].items())
    assert {(one.backend, one.machine) for one in kept} == {("cuda", "NVIDIA H200")}


def test_every_case_of_the_full_matrix_is_played_on_every_layout(kept, name):
    assert len(cases()) > 30
    assert unplayed(kept, LAYOUTS[name]) == []


def test_a_case_that_was_not_played_on_one_layout_is_noticed(kept, name):
    fewer = [one for one in kept if (one.case, one.layout) != ("bucket-cycle", "2A2F")]
    assert unplayed(fewer, LAYOUTS[name]) == [("bucket-cycle", "2A2F")]
    failed = [replace(one, status="failed") if one.case == "bucket-cycle" else one for one in kept]
    assert len(unplayed(failed, LAYOUTS[name])) == len(LAYOUTS[name])


def test_every_trial_ends_as_its_case_must_and_compared_elements_where_it_is_exact(kept):
    wanted = cases()
    assert all(one.expects == wanted[one.case] for one in kept)
    role_alone = [one for one in kept if one.case.startswith("one-role ")]
    assert all(one.elements > 0 for one in kept if one.expects == "exact" and one not in role_alone)


def test_every_library_is_of_one_digest_and_none_is_only_where_ranks_refused_each_other(kept):
    digests = {one.native_digest for one in kept if one.expects != "AgreementError on every rank"}
    assert len(digests) == 1
    assert None not in digests
    assert {one.native_digest for one in kept} <= {*digests, None}


def test_every_axis_of_the_covering_shapes_has_each_of_its_values(kept):
    cover = [one for one in kept if one.case == "cover"]
    assert {one.arm for one in cover} == {"m2n", "afdep"}
    assert {one.dtype for one in cover} == {"bf16", "fp8", "fp8-ue8m0"}
    assert {one.hidden for one in cover} == {2048, 4096, 7168, 8192}
    assert {one.top_k for one in cover} == {2, 8, 32}
    assert {one.mode for one in cover} == {"eager", "graph"}


def test_the_page_is_that_of_its_record(kept, name):
    text = (REPOSITORY / "reports" / "validation" / f"{name}.md").read_text("utf-8")
    assert text == page.text(name, kept)
