"""Validation: a part of the matrix on the simulator, and what makes each of its checks fail."""

import re
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import get_args

import numpy as np
import pytest

from afdep import agreement, proof
from afdep.errors import AfdepError
from harness.errors import HarnessError
from harness.studies.validate.cases import COVER, Condition, covering
from harness.studies.validate.exchange import with_a_bit_turned
from harness.studies.validate.ranks import CONDITIONS
from harness.studies.validate.simulated import SimulatedRanks
from tests.studies.validating import SMALL, altered, at, judged, opening, perform, settings, setups

NO_PLACE = {
    "host-counts": "counts on the host are read back on GPUs alone",
    "one-role UNION_REDUCE_PREFIX": "the ranks of a simulated group have one arm, and this control may differ",
}
EVERY = setups(SMALL, "backends=[sim]")
CHOSEN = setups(SMALL, "backends=[sim]", "validation.choose=pairs")
NAMES = tuple(dict.fromkeys(one.trial.case for one in EVERY))


def record(setup, backend=None):
    return judged(setup, {0: perform(setup, backend)})


@cache
def records(name):
    return [record(one) for one in CHOSEN if one.trial.case == name]


def setup_of(name, mode=None, **changes):
    found = (one for one in EVERY if (one.trial.case, one.trial.layout) == (name, "2A2F"))
    return altered(next(one for one in found if mode in (None, one.trial.mode)), **changes)


def held(name, found):
    expected = ("void", NO_PLACE[name]) if name in NO_PLACE else ("ok", None)
    assert {(one.status, one.reason) for one in found} == {expected}
    assert all(one.times_met > 0 for one in found if one.status == "ok")


@pytest.mark.parametrize("name", NAMES)
def test_a_case_is_exact_on_each_layout_or_says_why_it_cannot_be_run(name):
    assert {one.layout for one in records(name)} == {"1A1F", "2A2F", "3A1F"}
    held(name, records(name))


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
def test_every_trial_of_the_small_matrix_is_exact_or_says_why_it_cannot_be_run(name):
    held(name, [record(one) for one in EVERY if one.trial.case == name])


def test_the_small_matrix_has_a_shape_of_real_size_for_each_dtype():
    assert {one.dtype for one in records(COVER) if one.hidden >= 2048} == {"bf16", "fp8", "fp8-ue8m0"}


def test_every_element_is_counted():
    rows = 256 * 2 * (8 * 257 + 256)
    assert perform(setup_of("full-capacity", exchanges=1))["elements"] == 2 * rows


def test_a_trial_says_how_often_its_condition_was_met_and_what_was_loaded():
    facts = perform(setup_of("bucket-cycle", "eager"))
    assert (facts["exact"], facts["free"], facts["count"], facts["protocol"]) == (14, 7, 6, "m2n")
    assert re.fullmatch("n[0-9a-f]{16}", facts["digest"])


WITHOUT = {
    COVER: {"sources": ("one",)},
    "full-capacity": {"sources": ("full", "skipped")},
    "empty-sources": {"sources": ("full",)},
    "inactive-source": {"sources": ("full",)},
    "skipped-sources": {"sources": ("full",)},
    "one-small-source": {"sources": ("full",)},
    "delayed-replies": {"delay_ffn_us": 0},
    "delayed-source": {"delay_source_us": 0},
    "changing-inputs": {"exchanges": 1},
    "bucket-cycle": {"buckets": (16,)},
    "wrong-id-beyond": {"invalid": None},
    "a-wrong-sum": {"corrupted": None},
    "a-wrong-row": {"corrupted": None},
}


def unmet(condition):
    return ("failed", f"coverage condition: expected {condition}, counted none")


@pytest.mark.parametrize(("name", "changes"), WITHOUT.items(), ids=WITHOUT)
def test_a_trial_in_which_what_it_claims_never_happened_has_failed(name, changes):
    setup = setup_of(name, **changes)
    found = record(setup)
    assert (found.status, found.reason) == unmet(setup.case.condition)
    assert found.exchanges > 0
    assert found.times_met == 0


def test_even_routes_do_not_meet_the_condition_of_skewed_ones():
    found = record(at(setup_of("skewed-routes"), routing="random", tokens=512))
    assert (found.status, found.reason) == unmet("skewed exchanges")


def test_every_condition_that_a_case_may_name_is_counted():
    assert set(get_args(Condition)) == set(CONDITIONS)


def bent(bend=lambda shape, brought: brought, switches=None):
    """A backend whose exchanges bring, or whose library reports, something else than the ranks did."""

    class Bent(SimulatedRanks):
        def __init__(self, setup):
            super().__init__(setup)
            self.identity = {**self.identity, **({} if switches is None else {"switches": switches})}

        def run(self, turn):
            return bend(self.setup.shape, super().run(turn))

        def run_free(self, turns):
            return [bend(self.setup.shape, one) for one in super().run_free(turns)]

    return opening(Bent)


@pytest.mark.parametrize(("where", "what"), [("collected", "collected row"), ("received", "received row")])
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_one_wrong_bit_of_what_was_delivered_fails_a_trial(where, what, mode):
    turned = bent(lambda shape, brought: with_a_bit_turned(shape, brought, where))
    found = record(setup_of("bucket-cycle", mode), turned)
    assert found.status == "failed"
    assert found.reason.startswith(f"MismatchError: {what}")


def test_a_result_past_the_tokens_of_a_source_fails_a_trial():
    def leave_a_row(shape, brought):
        sources = shape.layout.attention_rank_ids
        return {
            **brought,
            **{rank: np.concatenate([y, np.ones_like(y[:1])]) for rank, y in brought.items() if rank in sources},
        }

    assert record(setup_of("full-capacity"), bent(leave_a_row)).reason.startswith("MismatchError: collected row")


def test_a_reference_that_is_wrong_in_one_element_fails_a_trial(monkeypatch):
    right = proof.expected

    def wrong(shape, sent):
        (y,) = right(shape, sent)
        y.view(np.uint16)[-1:, -1:] ^= 1
        return [y]

    monkeypatch.setattr(proof, "expected", wrong)
    assert record(setup_of("full-capacity")).reason.startswith("MismatchError: collected row")


def test_a_comparison_that_lets_a_turned_bit_pass_fails_a_trial(monkeypatch):
    monkeypatch.setattr("harness.studies.validate.protocol.compare", lambda *told: 1)
    expected = "expected the comparison to find a bit that was turned, received no difference"
    assert {record(setup_of(name)).reason for name in ("a-wrong-sum", "a-wrong-row")} == {expected}


def test_a_wrong_id_that_goes_unnoticed_fails_a_trial():
    class Deaf(SimulatedRanks):
        def run(self, turn):
            return {} if turn.wrong else super().run(turn)

    found = record(setup_of("wrong-id-wide"), opening(Deaf))
    assert found.reason == "expected the assertion expert_out_of_range, received a result"


def test_a_result_that_a_failed_exchange_leaves_fails_a_trial():
    class Lively(SimulatedRanks):
        def is_poisoned(self):
            return False

    found = record(setup_of("wrong-id-wide"), opening(Lively))
    assert found.reason == "expected NaN in what a failed exchange collected, received numbers"


@pytest.mark.parametrize(
    ("name", "switches"),
    [("control all", {}), ("control UNION_NOTIFY", {"AFDEP_GRID_SYNC_EXIT": 1})],
    ids=["none", "another"],
)
def test_a_control_that_the_library_does_not_report_fails_a_trial(name, switches):
    found = record(setup_of(name), bent(switches=switches))
    assert (found.status, found.reason) == unmet("loaded switches")


def test_a_library_that_was_not_planned_voids_a_trial():
    setup = setup_of("delayed-source")
    found = judged(setup, {0: perform(setup)}, digest="n" + 16 * "0")
    assert found.status == "void"
    assert found.reason.startswith("digest: the plan expects n0000000000000000, the loaded library reports n")


def test_a_role_with_a_control_of_its_own_that_nobody_refuses_fails_a_trial(monkeypatch):
    monkeypatch.setattr(agreement, "check", lambda by_rank: None)
    found = record(setup_of("one-role UNION_NOTIFY"))
    assert (found.status, found.reason) == (
        "failed",
        "expected ranks that refuse each other, received ranks that agree",
    )


def test_a_refusal_over_something_else_fails_a_trial(monkeypatch):
    fields = agreement.fields
    digests = iter("abcdefgh")
    monkeypatch.setattr(agreement, "fields", lambda shape, arm, digest: fields(shape, arm, next(digests)))
    assert record(setup_of("one-role UNION_NOTIFY")).reason.startswith("AgreementError: native digest")


AXES = {"a": [1, 2, 3, 4], "b": ["x", "y"], "c": [None, 5, 6], "d": [7]}


def test_a_covering_design_has_every_pair_and_few_points():
    points = covering(AXES)
    for one, other in combinations(AXES, 2):
        wanted = {(a, b) for a in AXES[one] for b in AXES[other]}
        assert {(point[one], point[other]) for point in points} == wanted
    assert len(points) < 4 * 2 * 3


def test_the_full_matrix_has_every_layout_shape_and_control_that_it_promises():
    trials = settings().chosen("sim")
    cover = [one for one in trials if one.case == COVER]
    assert {one.layout for one in trials} == {"1A1F", "2A1F", "2A2F", "3A1F", "1A3F", "5A1F"}
    pairs = {(one.hidden, one.top_k) for one in cover}
    assert pairs == {(hidden, top_k) for hidden in (2048, 4096, 7168, 8192) for top_k in (2, 8, 32)}
    assert {(one.transport_sms, one.mode) for one in cover} == {
        (sms, mode) for sms in (7, 16, 23, 24) for mode in ("eager", "graph")
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cases=[nothing]", "expected a case of the matrix"),
        ("backends=[tpu]", "Valid: sim, cuda"),
        ("backends=[]", "backends: expected 1 or more"),
        ("validation.layouts=[]", "layouts: expected 1 or more"),
        ("validation.cases.empty-sources.condition=ghosts", "expected one it knows"),
        ("validation.every.tokens=[0]", "expected 1 or more"),
        ("validation.every.tokens=[]", "validation.every.tokens: expected a value"),
        ("validation.layouts=[4:4]", "the int 244"),
        ("validation.machine=b200", "h100-nvlink"),
    ],
)
def test_a_setting_of_no_use_is_refused_as_it_is_read(text, words):
    with pytest.raises((HarnessError, AfdepError), match=words):
        settings(SMALL, text)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"shows": "x"}, "no key condition"),
        ({"colour": "red"}, "unknown key colour"),
        ({"sources": ["most"]}, "Valid: full, one, none, skipped, idle"),
        ({"invalid": "odd"}, "Valid: beyond, below, wide, duplicate"),
    ],
    ids=["too little", "unknown key", "amount", "route"],
)
def test_a_case_that_is_not_one_is_refused(told, words):
    from harness.config.read import read
    from harness.studies.validate.cases import Case

    base = {} if "shows" in told else {"shows": "x", "condition": "found bits"}
    with pytest.raises(HarnessError, match=words):
        read(Case, {**base, **told}, "validation.cases.odd")


def test_amounts_of_sources_may_repeat():
    found = settings(SMALL, "validation.cases.empty-sources.sources=[none,full,full]")
    assert found.validation.cases["empty-sources"].sources == ("none", "full", "full")


def test_a_trial_is_distinct_by_its_backend_alone():
    sim, cuda = (settings(SMALL).chosen(backend) for backend in ("sim", "cuda"))
    assert [replace(one, backend="cuda") for one in sim] == cuda
    assert not {*sim} & {*cuda}
