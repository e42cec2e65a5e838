"""Validation: a part of the matrix on the simulator, and what makes each of its checks fail."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from afdep import proof
from harness.compose import compose
from harness.errors import HarnessError
from harness.validation import playing
from harness.validation.cases import COVER
from harness.validation.comparing import Delivered, turn_a_bit
from harness.validation.covering import covering
from harness.validation.settings import validation_settings
from harness.validation.simulated import SimulatedEnd, open_end

NO_PLACE = {
    "host-counts": "counts on the host are read back on GPUs alone",
    "one-role UNION_REDUCE_PREFIX": "the ranks of a simulated group have one arm, and this control may differ",
}


def settings(*texts):
    return validation_settings(compose("validate", ["validation=small", *texts]))


SMALL = settings("backends=[sim]").trials
NAMES = tuple(dict.fromkeys(trial.case.name for trial in SMALL))


@cache
def outcomes(name):
    return [playing.perform(trial) for trial in SMALL if trial.case.name == name]


def trial_of(name, **changes):
    trial = next(one for one in SMALL if one.case.name == name and one.layout == "2A2F")
    return replace(trial, case=replace(trial.case, **changes))


@pytest.mark.requires("torch")
@pytest.mark.parametrize("name", NAMES)
def test_every_trial_of_the_small_matrix_is_exact_or_says_why_it_cannot_be_played(name):
    expected = ("void", NO_PLACE[name]) if name in NO_PLACE else ("ok", None)
    assert {(one.status, one.reason) for one in outcomes(name)} == {expected}
    assert all(one.witnessed > 0 for one in outcomes(name) if one.status == "ok")


def test_the_small_matrix_has_a_shape_of_real_size_for_each_dtype():
    real = [one.trial for one in outcomes(COVER) if one.trial.shape.hidden >= 2048]
    assert {trial.shape.dtype for trial in real} == {"bf16", "fp8", "fp8-ue8m0"}


def test_every_element_is_counted():
    trial = trial_of("full-capacity", exchanges=1)
    rows = 256 * 2 * (8 * 257 + 256)
    assert playing.perform(trial).elements == 2 * rows


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


@pytest.mark.parametrize(("name", "changes"), WITHOUT.items(), ids=WITHOUT)
def test_a_trial_in_which_what_it_claims_never_happened_has_failed(name, changes):
    trial = trial_of(name, **changes)
    outcome = playing.perform(trial)
    assert (outcome.status, outcome.reason) == ("failed", f"witness: expected {trial.case.witness}, counted none")
    assert outcome.exchanges > 0


def test_even_routes_are_no_witness_of_skewed_ones():
    trial = trial_of("skewed-routes")
    outcome = playing.perform(replace(trial, shape=replace(trial.shape, routing="random", tokens=512)))
    assert outcome.reason == "witness: expected skewed exchanges, counted none"


@dataclass
class Bent:
    """An end whose deliveries, or what it says of itself, are not what the ranks did."""

    end: SimulatedEnd
    bend: object = None
    identity: object = None

    def __getattr__(self, name):
        return getattr(self.end, name)

    def play(self, turn):
        return self.bend(self.end.play(turn))

    def play_free(self, turns):
        return [self.bend(one) for one in self.end.play_free(turns)]


def perform_bent(trial, bend, switches=None):
    def opening(one):
        end = open_end(one)
        return Bent(end, bend, {**end.identity, "switches": end.identity["switches"] if switches is None else switches})

    return playing.perform(trial, opening)


@pytest.mark.parametrize(("where", "what"), [("collected", "collected row"), ("received", "received row")])
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_one_wrong_bit_of_what_was_delivered_fails_a_trial(where, what, mode):
    trial = replace(trial_of("bucket-cycle"), mode=mode)
    outcome = perform_bent(trial, lambda delivered: turn_a_bit(delivered, where))
    assert outcome.status == "failed"
    assert outcome.reason.startswith(f"MismatchError: {what}")


def test_a_result_past_the_tokens_of_a_source_fails_a_trial():
    def leave_a_row(delivered):
        rows = [np.concatenate([y, np.ones_like(y[:1])]) for y in delivered.collected]
        return Delivered(rows, delivered.received)

    assert perform_bent(trial_of("full-capacity"), leave_a_row).reason.startswith("MismatchError: collected row")


def test_a_reference_that_is_wrong_in_one_element_fails_a_trial(monkeypatch):
    right = proof.expected
    monkeypatch.setattr(proof, "expected", lambda *told: turn_a_bit(Delivered(right(*told), ()), "collected").collected)
    assert playing.perform(trial_of("full-capacity")).reason.startswith("MismatchError: collected row")


def test_a_wrong_id_that_goes_unnoticed_fails_a_trial():
    class Deaf(Bent):
        def play(self, turn):
            return None if turn.wrong else self.end.play(turn)

    outcome = playing.perform(trial_of("wrong-id-wide"), lambda one: Deaf(end := open_end(one), None, end.identity))
    assert outcome.reason == "expected the assertion expert_out_of_range, received a result"


def test_a_control_that_the_library_does_not_report_fails_a_trial():
    outcome = perform_bent(trial_of("control all"), lambda delivered: delivered, switches={})
    assert outcome.reason == "witness: expected loaded switches, counted none"


def test_another_control_than_the_one_asked_for_fails_a_trial():
    other = {"AFDEP_GRID_SYNC_EXIT": 1}
    outcome = perform_bent(trial_of("control UNION_NOTIFY"), lambda delivered: delivered, switches=other)
    assert outcome.reason == "witness: expected loaded switches, counted none"


@pytest.mark.requires("torch")
def test_a_role_with_a_control_of_its_own_that_nobody_refuses_fails_a_trial(monkeypatch):
    monkeypatch.setattr(playing.roles, "refusals", lambda shape, arm: 0)
    assert playing.perform(trial_of("one-role UNION_NOTIFY")).status == "failed"


AXES = {"a": [1, 2, 3, 4], "b": ["x", "y"], "c": [None, 5, 6], "d": [7]}


def test_a_covering_design_has_every_pair_and_few_points():
    points = covering(AXES)
    for one, other in combinations(AXES, 2):
        wanted = {(a, b) for a in AXES[one] for b in AXES[other]}
        assert {(point[one], point[other]) for point in points} == wanted
    assert len(points) < 4 * 2 * 3


def test_the_full_matrix_has_every_layout_shape_and_control_that_it_promises():
    trials = validation_settings(compose("validate", ["backends=[sim]"])).trials
    cover = [trial for trial in trials if trial.case.name == COVER]
    assert {trial.layout for trial in trials} == {"1A1F", "2A1F", "2A2F", "3A1F", "1A3F", "5A1F"}
    pairs = {(trial.shape.hidden, trial.shape.top_k) for trial in cover}
    assert pairs == {(hidden, top_k) for hidden in (2048, 4096, 7168, 8192) for top_k in (2, 8, 32)}
    assert {(trial.shape.transport_sms, trial.mode) for trial in cover} == {
        (sms, mode) for sms in (7, 16, 23, 24) for mode in ("eager", "graph")
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cases=[nothing]", "expected a case of the matrix"),
        ("backends=[tpu]", "Valid: sim, cuda"),
        ("validation.cases.empty-sources.witness=ghosts", "expected one it knows"),
        ("validation.shape.tokens=0", "at least 1"),
        ("keep=A B", "small letters"),
    ],
)
def test_a_setting_of_no_use_is_refused(text, words):
    with pytest.raises(HarnessError, match=words):
        settings(text)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"shows": "x"}, "received only shows"),
        ({"shows": "x", "witness": "found bits", "colour": "red"}, "unknown key colour"),
        ({"shows": "x", "witness": "found bits", "sources": ["most"]}, "Valid: full, one, none, skipped, idle"),
        ({"shows": "x", "witness": "found bits", "invalid": "odd"}, "Valid: beyond, below, wide, duplicate"),
    ],
)
def test_a_case_that_is_not_one_is_refused(told, words):
    config = compose("validate", ["validation=small"])
    config["validation"]["cases"]["odd"] = told
    with pytest.raises(HarnessError, match=words):
        validation_settings(config)
