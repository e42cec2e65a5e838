"""The matrix as H200s ran it, on one GPU and on two, and as it was simulated: every case on every layout."""

from dataclasses import replace

import pytest

from harness.records.table import read
from harness.studies.validate.program import Record
from tests.studies.validating import ROOT, setups

RECORDS = ROOT / "records" / "validate"
LAYOUTS = {
    "h200-one-gpu": {"1A1F": 2, "2A1F": 3, "2A2F": 4, "3A1F": 4, "1A3F": 4, "5A1F": 6},
    "h200-two-gpus": {"1A1F": 1, "2A2F": 2, "3A1F": 3, "1A3F": 3},
}
"""Layouts, with the ranks of each on the fullest GPU."""


def archived(name):
    reading = read([RECORDS / f"{name}.parquet"])
    assert reading.quarantined == ()
    return reading.of(Record)


@pytest.fixture(scope="module", params=LAYOUTS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def records(name):
    return archived(name)


def cases():
    """The cases of the full matrix, by what each expects."""
    return {one.trial.case: one.case.expects for one in setups("validation=full", "backends=[cuda]")}


def not_run(records, layouts):
    """Cases and layouts of which no trial was exact, or ended as it must."""
    run = {(one.case, one.layout) for one in records if one.status == "ok" and one.times_met > 0}
    return sorted({(case, layout) for case in cases() for layout in layouts} - run)


def test_every_trial_is_ok_and_what_it_claims_has_happened(records):
    assert {(one.status, one.reason) for one in records} == {("ok", None)}
    assert all(one.times_met > 0 for one in records)


def test_the_layouts_are_the_listed_ones_with_their_ranks_on_a_gpu(records, name):
    assert {(one.layout, one.ranks_per_gpu) for one in records} == set(LAYOUTS[name].items())
    assert {(one.backend, one.machine) for one in records} == {("cuda", "NVIDIA H200")}


def test_every_case_of_the_full_matrix_is_run_on_every_layout(records, name):
    assert len(cases()) > 30
    assert not_run(records, LAYOUTS[name]) == []


def test_a_case_that_was_not_run_on_one_layout_is_noticed(records, name):
    fewer = [one for one in records if (one.case, one.layout) != ("bucket-cycle", "2A2F")]
    assert not_run(fewer, LAYOUTS[name]) == [("bucket-cycle", "2A2F")]
    failed = [replace(one, status="failed") if one.case == "bucket-cycle" else one for one in records]
    assert len(not_run(failed, LAYOUTS[name])) == len(LAYOUTS[name])


def test_every_trial_ends_as_its_case_must_and_compared_elements_where_it_is_exact(records):
    wanted = cases()
    assert all(one.expects == wanted[one.case] for one in records)
    role_alone = [one for one in records if one.case.startswith("one-role ")]
    assert all(one.elements > 0 for one in records if one.expects == "exact" and one not in role_alone)


def test_every_library_is_of_one_digest_and_none_is_only_where_ranks_refused_each_other(records):
    digests = {one.native_digest for one in records if one.expects != "AgreementError on every rank"}
    assert len(digests) == 1
    assert None not in digests
    assert {one.native_digest for one in records} <= {*digests, None}


def test_every_axis_of_the_covering_shapes_has_each_of_its_values(records):
    cover = [one for one in records if one.case == "cover"]
    assert {one.arm for one in cover} == {"m2n", "afdep"}
    assert {one.dtype for one in cover} == {"bf16", "fp8", "fp8-ue8m0"}
    assert {one.hidden for one in cover} == {2048, 4096, 7168, 8192}
    assert {one.top_k for one in cover} == {2, 8, 32}
    assert {one.mode for one in cover} == {"eager", "graph"}


NOT_SIMULATED = {
    "counts on the host are read back on GPUs alone",
    "the ranks of a simulated group have one arm, and this control may differ",
}


def test_the_simulated_matrix_is_green_on_every_layout_and_its_voids_say_why():
    simulated = [one for one in archived("matrix") if one.backend == "sim"]
    assert {one.layout for one in simulated} == {"1A1F", "2A1F", "2A2F", "3A1F", "1A3F", "5A1F"}
    assert {one.reason for one in simulated} == {None, *NOT_SIMULATED}
    assert {one.status for one in simulated if one.reason is None} == {"ok"}
    assert all(one.times_met > 0 for one in simulated if one.status == "ok")
    assert len({one.native_digest for one in simulated if one.status == "ok"}) == 1
