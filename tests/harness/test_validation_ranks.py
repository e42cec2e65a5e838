"""Rank processes that play trials in turn: what one trial leaves for the next, whatever went wrong in it.

The processes, their groups and what they say are real; the simulator stands for the GPUs.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest

from afdep.build import build
from harness.compose import compose
from harness.validation import on_gpus
from harness.validation.cases import Trial
from harness.validation.on_gpus import Gpus, play_all
from harness.validation.outcome import Outcome
from harness.validation.settings import validation_settings

pytestmark = pytest.mark.requires("torch")

GOES_WELL, ONE_FINDS_A_BIT, ONE_DIES, ONE_HANGS, ONE_CANNOT_GIVE_BACK, ALL_REFUSE, ONE_RAISES = range(7)
"""Seeds, as tests/harness/simulated_rank.py takes them."""

TRIALS = validation_settings(compose("validate", ["validation=small", "backends=[cuda]"])).trials
PLAYED = [
    *(("bucket-cycle", "2A2F", seed) for seed in (ONE_FINDS_A_BIT, ALL_REFUSE, ONE_RAISES)),
    *(("wrong-id-beyond", "2A2F", GOES_WELL), ("a-wrong-row", "2A2F", GOES_WELL)),
    *(("bucket-cycle", "2A2F", ONE_DIES), ("skewed-routes", "2A2F", GOES_WELL)),
    *(("bucket-cycle", "2A2F", ONE_HANGS), ("empty-sources", "2A2F", GOES_WELL)),
    *(("bucket-cycle", "2A2F", ONE_CANNOT_GIVE_BACK), ("one-small-source", "2A2F", GOES_WELL)),
    ("inactive-source", "3A1F", GOES_WELL),
]
"""In the order of play: three trials of them are not survived by a rank."""

Key = tuple[str, str, int]


@dataclass(frozen=True)
class All:
    """What came of them, told as they ended, and how many trials each start was given."""

    outcomes: Mapping[Key, Outcome]
    told: Sequence[Key]
    starts: Sequence[int]

    def reason(self, seed: int) -> str:
        outcome = self.outcomes["bucket-cycle", "2A2F", seed]
        assert outcome.status == "failed"
        return str(outcome.reason)


def _trial(name: str, layout: str, seed: int) -> Trial:
    found = next(one for one in TRIALS if (one.case.name, one.layout) == (name, layout) and one.mode == "eager")
    return replace(found, seed=seed)


def _key(outcome: Outcome) -> Key:
    return outcome.trial.case.name, outcome.trial.layout, outcome.trial.seed


@pytest.fixture(scope="module")
def played():
    build()  # the simulator's library, which takes longer than a trial may
    starts, start, told = [], on_gpus._start, []

    def simulated(*given):
        starts.append(len(given[1]))
        return replace(start(*given), module="tests.harness.simulated_rank")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_gpus, "_start", simulated)
        patch.setattr(on_gpus.mps, "shares", lambda placement, environ: nullcontext([{} for _ in placement.seats]))
        listen = lambda outcome: told.append(_key(outcome))  # noqa: E731
        outcomes = list(play_all([_trial(*one) for one in PLAYED], Gpus(1, "NVIDIA H200", 132), listen))
    return All({_key(one): one for one in outcomes}, told, starts)


@pytest.mark.parametrize("key", [key for key in PLAYED if key[2] == GOES_WELL], ids=lambda key: key[0])
def test_a_trial_is_exact_whatever_those_before_it_ended_with(played, key):
    assert (played.outcomes[key].status, played.outcomes[key].reason) == ("ok", None)


def test_ranks_that_fail_in_step_go_on_and_a_start_ends_only_where_a_rank_is_lost(played):
    assert played.starts == [12, 6, 4, 2]


def test_every_outcome_is_told_once_as_it_comes(played):
    assert played.told == PLAYED


def test_a_rank_that_fails_is_named_and_its_peers_are_not(played):
    assert played.reason(ONE_FINDS_A_BIT).startswith("rank 1: MismatchError: collected row")
    assert played.reason(ONE_RAISES) == "rank 1: ZeroDivisionError: of the harness itself"


def test_a_buffer_that_no_rank_can_make_fails_on_all(played):
    assert played.reason(ALL_REFUSE).count("MismatchError: construction") == 4


def test_a_rank_that_dies_is_named_with_its_ending(played):
    assert "rank 1: exit code 9" in played.reason(ONE_DIES)


def test_a_rank_that_hangs_says_in_what(played):
    assert "rank 1: still in" in played.reason(ONE_HANGS)
    assert "_go_wrong after 8 s" in played.reason(ONE_HANGS)


def test_a_gpu_that_cannot_go_on_fails_its_own_trial_alone(played):
    assert "rank 1: giving back: DeviceError" in played.reason(ONE_CANNOT_GIVE_BACK)
