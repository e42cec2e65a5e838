"""Trials on GPUs: each rank's part, what all parts make together, who is seated. Ranks here replay the simulator."""

import json
import threading
from dataclasses import asdict, replace
from itertools import islice

import numpy as np
import pytest

from afdep.arms import Arm
from afdep.errors import DeviceAssertion
from harness.compose import compose
from harness.decode import decode
from harness.validation import on_gpus, part
from harness.validation.cases import Trial
from harness.validation.on_gpus import Gpus, outcome_of, play_all, unseated
from harness.validation.part import Report, play
from harness.validation.playing import perform
from harness.validation.settings import validation_settings
from harness.validation.watchdog import STUCK, Watchdog
from tests.harness.ranks_of_a_world import RankOfAWorld

TRIALS = validation_settings(compose("validate", ["validation=small", "backends=[cuda]"])).trials
ONE_H200 = Gpus(1, "NVIDIA H200", 132)


def trial_of(name, mode="eager", layout="2A2F"):
    return next(one for one in TRIALS if (one.case.name, one.mode, one.layout) == (name, mode, layout))


class Replayed(RankOfAWorld):
    """A rank's end that gives what the simulator gave this rank, unless it is told to bend it."""

    def __init__(self, trial, rank, bend=lambda found: found):
        super().__init__(trial, rank)
        self.bend = bend

    def own(self, delivered):
        own = super().own(delivered)
        return self.bend(own) if self.rank >= self.shape.layout.ffn_ranks else own

    def meet(self, problem=None):
        pass


def reports_of(trial, bend=lambda found: found):
    reports = {}
    for rank in range(4):
        end = Replayed(trial, rank, bend)
        identity = end.world.identity
        reports[rank] = Report(str(identity["digest"]), str(identity["protocol"]), identity["switches"])
        play(trial, end, reports[rank])
    return reports


PLAYED = [
    *(("bucket-cycle", mode) for mode in ("eager", "graph")),
    *(("wrong-id-wide", mode) for mode in ("eager", "graph")),
    *(("a-wrong-sum", "eager"), ("a-wrong-row", "graph"), ("delayed-replies", "eager"), ("delayed-source", "graph")),
    *(("control all", "eager"), ("changing-inputs", "graph"), ("inactive-source", "eager")),
]


@pytest.mark.parametrize(("name", "mode"), PLAYED)
def test_parts_of_all_ranks_make_the_outcome_that_the_whole_has(name, mode):
    trial = trial_of(name, mode)
    together, whole = outcome_of(trial, reports_of(trial), {}), perform(trial)
    assert (together.status, together.reason) == ("ok", None)
    assert together.elements == whole.elements
    assert (together.exchanges, together.free) == (whole.exchanges, whole.free)
    assert together.witnessed > 0


@pytest.mark.parametrize("trial", TRIALS[::40], ids=lambda trial: trial.label)
def test_ranks_are_told_trials_as_they_were_declared(trial):
    assert decode(Trial, json.loads(json.dumps(asdict(trial)))) == trial


@pytest.mark.requires("torch")
def test_rank_processes_that_find_no_gpu_fail_their_trials_and_say_so():
    (outcome,) = play_all([trial_of("cover", layout="1A1F")], Gpus(10**6, "NVIDIA H200", 132))
    assert outcome.status == "failed"
    assert "rank 0: exit code 1; last on stderr:" in outcome.reason


def test_a_rank_with_one_wrong_bit_fails_the_trial_and_is_named():
    def bend(y):
        bent = np.array(y)
        bent.view(np.uint16)[-1:, -1:] ^= 1
        return bent

    trial = trial_of("bucket-cycle")
    outcome = outcome_of(trial, reports_of(trial, bend), {})
    assert outcome.status == "failed"
    assert outcome.reason.startswith("rank 2: MismatchError: collected row at rank 2")


def test_a_wrong_id_that_a_rank_does_not_raise_fails_the_trial():
    class Deaf(Replayed):
        def play(self, turn):
            return None if turn.wrong else super().play(turn)

    report = Report()
    play(trial_of("wrong-id-twice"), Deaf(trial_of("wrong-id-twice"), 0), report)
    assert report.reason == "expected the assertion duplicate_expert, received a result"


def test_an_assertion_that_names_another_place_fails_the_trial():
    class Elsewhere(Replayed):
        def play(self, turn):
            if turn.wrong:
                raise DeviceAssertion(turn.wrong.name, turn.wrong.rank, 0, 0, turn.wrong.expert)
            return super().play(turn)

    report = Report()
    play(trial_of("wrong-id-beyond"), Elsewhere(trial_of("wrong-id-beyond"), 3), report)
    assert report.reason.startswith("expected the assertion ('expert_out_of_range', 3, 7, 7, 96)")


@pytest.mark.parametrize(("name", "rank"), [("a-wrong-sum", 3), ("a-wrong-row", 1)])
def test_a_comparison_that_lets_a_turned_bit_pass_fails_the_trial(monkeypatch, name, rank):
    trial, report = trial_of(name), Report()
    monkeypatch.setattr(part, "compared", lambda *told: 1)
    play(trial, Replayed(trial, rank), report)
    assert report.reason == "expected the comparison to find a bit that was turned, received no difference"


def test_a_rank_that_says_nothing_fails_the_trial_with_its_ending():
    trial = trial_of("bucket-cycle")
    reports = reports_of(trial)
    del reports[1]
    outcome = outcome_of(trial, reports, {1: "signal: ended by SIGKILL"})
    assert (outcome.status, outcome.reason) == ("failed", "rank 1: signal: ended by SIGKILL")


def test_ranks_with_other_libraries_fail_the_trial():
    trial = trial_of("bucket-cycle")
    reports = reports_of(trial)
    reports[3] = replace(reports[3], native_digest="n0")
    assert "expected one library on all ranks" in outcome_of(trial, reports, {}).reason


def test_one_rank_without_its_control_is_no_witness_of_it():
    trial = trial_of("control all")
    reports = reports_of(trial)
    reports[3] = replace(reports[3], switches={})
    assert outcome_of(trial, reports, {}).reason == "witness: expected loaded switches, counted none"


def test_a_control_of_one_role_must_be_refused_by_every_rank():
    trial = trial_of("one-role UNION_NOTIFY")
    refusing = {rank: Report(refused=1) for rank in range(4)}
    assert outcome_of(trial, refusing, {}).status == "ok"
    assert outcome_of(trial, dict.fromkeys(range(4), Report()), {}).status == "failed"
    assert outcome_of(trial, refusing | {0: Report()}, {}).status == "failed"


def test_a_control_that_one_role_may_have_alone_is_witnessed_on_that_role_alone():
    trial = trial_of("one-role UNION_REDUCE_PREFIX")
    own = dict(Arm.parse(trial.arm).switches)
    ffn, attention = Report(switches=own), Report(switches={})
    reports = {0: ffn, 1: ffn, 2: attention, 3: attention}
    assert outcome_of(trial, reports, {}).witnessed == 2
    for other in (reports | {1: attention}, reports | {3: ffn}):
        assert outcome_of(trial, other, {}).reason == "witness: expected role switches, counted none"


def test_without_gpus_every_trial_is_void_and_says_what_it_needs():
    outcomes = list(play_all(TRIALS[:3], "needs GPUs: none here"))
    assert [(one.status, one.reason) for one in outcomes] == [("void", "needs GPUs: none here")] * 3


@pytest.mark.parametrize(("layout", "sms", "room"), [("3A1F", 24, True), ("5A1F", 16, True), ("5A1F", 23, False)])
def test_a_trial_of_more_transport_sms_than_a_shared_gpu_holds_is_void(layout, sms, room):
    trial = trial_of("bucket-cycle")
    asked = replace(trial, layout=layout, shape=replace(trial.shape, transport_sms=sms))
    assert (unseated(asked, ONE_H200) is None) == room


def test_ranks_that_fail_end_their_start_and_the_trials_behind_are_played_by_new_ones(monkeypatch):
    trials, starts = [trial_of("bucket-cycle"), trial_of("delayed-source"), trial_of("skewed-routes")], []

    def run(start, hear):
        starts.append(start)
        return {0: "exit code 1"}

    monkeypatch.setattr(on_gpus.launch, "run", run)
    outcomes = list(play_all(trials, Gpus(4, "NVIDIA H200", 132)))
    assert [one.status for one in outcomes] == ["failed"] * 3
    assert len(starts) == 3
    assert all("rank 0: exit code 1" in one.reason for one in outcomes)


def test_a_trial_whose_ranks_all_end_without_a_word_fails_once_though_idle_ranks_say_that_they_leave(monkeypatch):
    trials, starts = [trial_of("bucket-cycle"), trial_of("delayed-source")], []

    def run(start, hear):
        starts.append(start)
        hear(4, {"event": part.LOST})
        return {0: "signal: ended by SIGSEGV"}

    monkeypatch.setattr(on_gpus.launch, "run", run)
    outcomes = list(islice(play_all(trials, Gpus(6, "NVIDIA H200", 132)), 3))
    assert [one.status for one in outcomes] == ["failed"] * 2
    assert len(starts) == 2


def test_a_rank_that_hangs_is_ended_even_where_it_can_say_nothing(monkeypatch):
    report, statuses, is_over = Report(), [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda told: is_over.set())

    def say():
        raise BrokenPipeError

    with Watchdog(statuses.append).over(0.1, report, say):
        assert is_over.wait(10)
    assert statuses == [STUCK]
    assert report.reason.startswith("still in ")
