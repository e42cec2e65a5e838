"""Planted trees for GPUs: edits apply to the tree as it is, places run and leave their marks, outcomes are judged."""

import json
from dataclasses import asdict, replace
from itertools import groupby

import pytest

from afdep.device_errors import DeviceError, WaitTimeoutError
from afdep.digest import native_digest
from afdep.errors import AfdepError, BuildError
from harness.compose import compose
from harness.decode import decode
from harness.errors import HarnessError
from harness.faults import trees
from harness.faults.guards import GUARDS
from harness.faults.judging import judge
from harness.faults.late import LATES
from harness.faults.on_gpus import Job, play_all
from harness.faults.part import (
    BROKEN,
    FAULT,
    LEFT,
    MISMATCH,
    NAMED,
    STUCK,
    PeerLostError,
    Report,
    StuckError,
    kind,
    play,
)
from harness.faults.plants import ALL
from harness.faults.settings import fault_settings
from harness.faults.trials import AS_SHIPPED, CAUGHT, EXACT, Shape
from harness.validation.on_gpus import Gpus
from harness.workspace import REPOSITORY
from tests.harness.faulty_worlds import SimulatedEnd, alone

SETTINGS = fault_settings(compose("faults", []), REPOSITORY)
TRIALS = SETTINGS.making.trials()
SMALL = Shape(hidden=1024, num_experts=64, top_k=8, tokens=32, transport_sms=8, exchanges=3)
LATE_ONES = [replace(one, shape=SMALL) for one in TRIALS if one.library == trees.LATE]
TWO_H200 = Gpus(2, "NVIDIA H200", 132)
DIGEST = "n0123abcd"


def trial_of(slug, late=None):
    return next(one for one in TRIALS if (one.library, one.late) == (slug, late))


def played(trial):
    end, report = SimulatedEnd(trial), Report()
    play(trial, end, alone, report)
    return judge(trial, end.digest, dict.fromkeys(range(4), report), {})


@pytest.mark.parametrize("guard", [None, *GUARDS], ids=lambda guard: guard.slug if guard else "none")
def test_every_edit_finds_its_text_exactly_once(guard, tmp_path):
    assert native_digest("cuda", trees.tree(guard, tmp_path)) != native_digest("cuda")


def test_an_edit_whose_text_is_gone_is_noticed(tmp_path):
    guard = replace(GUARDS[0], mark=(GUARDS[0].mark[0], "no such text"))
    with pytest.raises(AssertionError, match="expected once, received 0 times"):
        trees.tree(guard, tmp_path)


def test_guards_are_plants_of_the_hunt_and_have_libraries_of_their_own():
    assert {guard.name for guard in GUARDS} <= {plant.name for plant in ALL}
    assert len({guard.slug for guard in GUARDS} | {trees.LATE, trees.SHIPPED}) == len(GUARDS) + 2


def test_every_delay_has_a_place_of_its_own_beside_the_guards():
    assert len({late.place for late in LATES} | {0}) == len(LATES) + 1


@pytest.mark.requires("nvcc")
@pytest.mark.parametrize("guard", [GUARDS[1]], ids=lambda guard: guard.slug)
def test_a_planted_library_builds_and_exports_its_faults(guard, tmp_path):
    target = tmp_path / "planted.so"
    digest = trees.library(guard, target)
    assert digest.encode() in target.read_bytes()
    assert b"afdep_faults_told" in target.read_bytes()


@pytest.mark.requires("nvcc")
def test_a_planted_library_that_does_not_compile_is_an_error(tmp_path):
    guard = next(guard for guard in GUARDS if guard.slug == "send-fence")
    broken = replace(guard, edits_on_gpus=((guard.mark[0], "#pragma once\n", "#pragma once\nno such thing;\n"),))
    with pytest.raises(BuildError):
        trees.library(broken, tmp_path / "broken.so")


@pytest.mark.parametrize("trial", LATE_ONES, ids=lambda trial: trial.label)
def test_kernels_are_exact_with_each_delay_and_each_delay_has_happened(trial):
    outcome = played(trial)
    assert (outcome.outcome, outcome.marked, outcome.exact) == (EXACT, True, SMALL.exchanges * trial.rounds)


@pytest.mark.parametrize("late", [None, "rows"])
def test_a_guard_that_is_gone_leaves_its_mark_and_is_missed_where_rows_are_late(late):
    outcome = played(replace(trial_of("drained", late), shape=SMALL))
    assert outcome.marked
    assert outcome.outcome == ("passed" if late is None else "caught: mismatch")


def test_every_trial_is_played_once_and_those_that_may_end_a_process_last():
    assert len({one.label for one in TRIALS}) == len(TRIALS)
    assert [one.restarts for one in TRIALS] == sorted(one.restarts for one in TRIALS)
    assert [layout for layout, _ in groupby(one.layout for one in TRIALS)] == ["2A2F", "1A1F"]
    assert {one.arm for one in TRIALS if one.control == AS_SHIPPED} == {"m2n", "afdep"}


ENDS = [
    ({}, "passed"),
    ({0: (MISMATCH, "rows differ")}, "caught: mismatch"),
    ({0: (NAMED, "WaitTimeoutError"), 1: (MISMATCH, "rows differ")}, "caught: named error"),
    ({0: (NAMED, "WaitTimeoutError"), 1: (FAULT, "illegal address")}, "caught: device fault"),
    ({1: (STUCK, "still runs")}, "caught: hang"),
    ({0: (LEFT, "a peer is gone")}, "void"),
    ({0: (BROKEN, "IndexError"), 1: (LEFT, "a peer is gone")}, "void"),
]


@pytest.mark.parametrize(("ends", "outcome"), ENDS, ids=[f"{outcome}-{len(ends)}" for ends, outcome in ENDS])
def test_a_guards_outcome_is_what_the_gravest_rank_says(ends, outcome):
    reports = {rank: Report(*ends.get(rank, ("exact", None)), told=(0,), digest=DIGEST) for rank in range(2)}
    assert judge(trial_of("drained"), DIGEST, reports, {}).outcome == outcome


@pytest.mark.parametrize(
    ("ended", "outcome"), [("exact", EXACT), (MISMATCH, "failed"), (LEFT, "failed"), (BROKEN, "failed")]
)
def test_what_must_be_exact_is_exact_or_has_failed(ended, outcome):
    reports = {rank: Report(ended, None, digest=DIGEST) for rank in range(4)}
    assert judge(trial_of(trees.SHIPPED), DIGEST, reports, {}).outcome == outcome


@pytest.mark.parametrize("told", [(), (0,), (2,)])
def test_an_outcome_without_its_marks_is_void(told):
    reports = {rank: Report(MISMATCH, "rows differ", told=told, digest=DIGEST) for rank in range(2)}
    outcome = judge(trial_of("drained", "rows"), DIGEST, reports, {})
    assert (outcome.outcome, outcome.marked) == ("void", False)
    assert "never ran; rank 0: rows differ" in outcome.reason


def test_marks_of_different_ranks_count_together():
    reports = {rank: Report(MISMATCH, "rows differ", told=(2 * rank,), digest=DIGEST) for rank in range(2)}
    assert judge(trial_of("drained", "rows"), DIGEST, reports, {}).outcome == "caught: mismatch"


def test_another_library_than_was_built_is_void():
    reports = {rank: Report(told=(0,), digest="nffffffff") for rank in range(2)}
    outcome = judge(trial_of("drained"), DIGEST, reports, {})
    assert (outcome.outcome, outcome.reason) == ("void", f"expected the library {DIGEST}, received nffffffff")


def test_a_rank_that_said_nothing_leaves_a_void_that_says_why():
    outcome = judge(trial_of("drained"), DIGEST, {0: Report(told=(0,), digest=DIGEST)}, {1: "signal: SIGABRT"})
    assert (outcome.outcome, outcome.reason) == ("void", "rank 1: signal: SIGABRT")


ERRORS = [
    (WaitTimeoutError(0, "dispatch counts", [1], 1, 0), NAMED),
    (DeviceError("an illegal memory access was encountered"), FAULT),
    (RuntimeError("CUDA error: misaligned address"), FAULT),
    (RuntimeError("CUDA out of memory"), BROKEN),
    (IndexError("of the harness itself"), BROKEN),
    (StuckError("still runs"), STUCK),
    (PeerLostError("gone"), LEFT),
]


@pytest.mark.parametrize(("error", "expected"), ERRORS, ids=lambda value: str(value).splitlines()[0])
def test_an_error_of_a_round_is_of_its_kind(error, expected):
    assert kind(error) == expected


class Broken:
    """An end whose second round fails with an error, and which counts the rounds."""

    digest = DIGEST

    def __init__(self, error):
        self.error, self.rounds = error, 0

    def told(self):
        return (0,)

    def play_round(self, number):
        self.rounds += 1
        if number == 1:
            raise self.error
        return 5


@pytest.mark.parametrize("error", [error for error, _ in ERRORS], ids=lambda value: str(value).splitlines()[0])
def test_no_round_is_played_behind_one_that_failed(error):
    end, report = Broken(error), Report()
    play(trial_of("drained"), end, alone, report)
    assert (end.rounds, report.exact, report.ended, report.told) == (2, 5, kind(error), (0,))


def test_a_round_that_failed_on_a_peer_is_the_last_here_too():
    end, report = Broken(None), Report()
    play(trial_of("drained"), end, lambda ended: [ended, MISMATCH], report)
    assert (end.rounds, report.ended) == (1, EXACT)


def lost(ended):
    raise PeerLostError("connection closed")


@pytest.mark.parametrize(("end", "ended"), [(Broken(None), LEFT), (None, MISMATCH)])
def test_a_rank_whose_peer_is_gone_keeps_what_it_has_found(end, ended):
    from harness.faults.part import RoundMismatchError

    class Wrong(Broken):
        def play_round(self, number):
            raise RoundMismatchError(3, "rows differ")

    report = Report()
    play(trial_of("drained"), end or Wrong(None), lost, report)
    assert report.ended == ended


class Starts:
    """Starts of ranks that end as they are told: by trial, what each rank says; the start ends with one of ENDING."""

    def __init__(self, *says):
        self.says, self.starts = list(says), []

    def __call__(self, start, listen):
        told = json.loads(start.job.read_text())
        self.starts.append(len(told["trials"]))
        for index, ended in enumerate(self.says.pop(0)):
            for rank in range(len(start.shares)):
                report = asdict(Report(ended, "said", told=(0,), digest=DIGEST))
                listen(rank, {"event": "fault part", "trial": index, "report": report})
        return {0: "exit code 1"}


def job_of(count, limit_s=100.0):
    guards = [one for one in TRIALS if (one.expects, one.late, one.layout) == (CAUGHT, None, "1A1F")][:count]
    return Job(tuple(guards), tuple((one.library, DIGEST) for one in guards), 1.0, 5.0, limit_s)


def test_trials_behind_one_that_ended_its_ranks_are_played_by_fresh_ones(tmp_path):
    starts = Starts([MISMATCH, FAULT], [MISMATCH])
    outcomes = list(play_all(job_of(3), tmp_path, TWO_H200, lambda line: None, starts))
    assert starts.starts == [3, 1]
    assert [one.outcome for one in outcomes] == ["caught: mismatch", "caught: device fault", "caught: mismatch"]
    assert {one.machine for one in outcomes} == {"NVIDIA H200"}


def test_ranks_that_never_speak_cost_one_trial_a_start(tmp_path):
    starts = Starts([], [MISMATCH])
    outcomes = list(play_all(job_of(2), tmp_path, TWO_H200, lambda line: None, starts))
    assert [one.outcome for one in outcomes] == ["void", "caught: mismatch"]


def test_what_does_not_fit_into_the_time_is_void(tmp_path):
    times = iter([0.0, 1.0, 95.0, 96.0])
    outcomes = list(play_all(job_of(3), tmp_path, TWO_H200, lambda line: None, Starts([MISMATCH]), lambda: next(times)))
    assert [one.outcome for one in outcomes] == ["caught: mismatch", "void", "void"]
    assert outcomes[-1].reason == "the time of all starts was over"


def test_trials_are_void_where_no_gpus_are(tmp_path):
    outcomes = list(play_all(job_of(2), tmp_path, "needs GPUs: none", lambda line: None, Starts()))
    assert [(one.outcome, one.reason) for one in outcomes] == [("void", "needs GPUs: none")] * 2


def test_a_job_travels_as_plain_data():
    job = job_of(3)
    assert decode(Job, json.loads(json.dumps(asdict(job)))) == job


REFUSED = [
    ("faults.shape.hidden=1500", "expected a multiple of 1,024, received 1500"),
    ("faults.timeout_s=0", "expected seconds, received 0"),
    ("faults.limit_s=nan", "expected seconds, received nan"),
    ("faults.stuck_s=inf", "expected seconds, received inf"),
    ("faults.layouts=[3A3F]", "expected a multiple of the 3 FFN ranks of 3A3F, received 64"),
    ("faults.shape.transport_sms=1000", "transport_sms: expected 1..132, received 1000"),
    ("faults.shape.num_experts=6", "expected at least 8 experts for distinct lanes, received 6"),
    ("source=out/no-such-file", "expected a file"),
    ("keep=UPPER", "expected a name of small letters"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_setting_of_no_use_is_refused(text, message):
    with pytest.raises((HarnessError, AfdepError), match=message):
        fault_settings(compose("faults", [text]), REPOSITORY)
