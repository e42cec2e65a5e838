"""What each rank of a trial says by itself, and what all of them make together, from what the simulator gave each."""

from types import SimpleNamespace

import numpy as np
import pytest

from afdep import DeviceError
from afdep.arms import Arm
from afdep.errors import DeviceAssertion
from harness.studies.validate import protocol
from tests.studies.validating import SMALL, RankOfAWorld, judged, opening, perform, setups

TRIALS = setups(SMALL, "backends=[cuda]")


def setup_of(name, mode="eager", layout="2A2F"):
    return next(one for one in TRIALS if (one.trial.case, one.trial.mode, one.trial.layout) == (name, mode, layout))


class Turned(RankOfAWorld):
    """A rank of which an Attention rank collects one wrong bit."""

    def own(self, brought):
        def bent(y):
            turned = np.array(y)
            turned.view(np.uint16)[-1:, -1:] ^= 1
            return turned

        own, ffn_ranks = super().own(brought), self.world.setup.shape.layout.ffn_ranks
        return {rank: bent(found) if rank >= ffn_ranks else found for rank, found in own.items()}


def facts_of(setup, rank, kind=RankOfAWorld):
    return protocol.perform(setup, opening(lambda one: kind(one, rank)), SimpleNamespace(rank=rank))


def parts_of(setup, kind=RankOfAWorld):
    return {rank: facts_of(setup, rank, kind) for rank in range(4)}


def together(setup, said, **more):
    return judged(setup, said, "cuda", **more)


RUN = [
    *(("bucket-cycle", mode) for mode in ("eager", "graph")),
    *(("wrong-id-wide", mode) for mode in ("eager", "graph")),
    *(("a-wrong-sum", "eager"), ("a-wrong-row", "graph"), ("delayed-replies", "eager"), ("delayed-source", "graph")),
    *(("control all", "eager"), ("changing-inputs", "graph"), ("inactive-source", "eager")),
]


@pytest.mark.parametrize(("name", "mode"), RUN)
def test_parts_of_all_ranks_make_the_record_that_the_whole_has(name, mode):
    setup = setup_of(name, mode)
    parts, whole = together(setup, parts_of(setup)), judged(setup, {0: perform(setup)})
    assert (parts.status, parts.reason) == ("ok", None)
    assert parts.elements == whole.elements
    assert (parts.exchanges, parts.free_exchanges) == (whole.exchanges, whole.free_exchanges)
    assert min(parts.times_met, whole.times_met) > 0


def test_a_rank_with_one_wrong_bit_fails_the_trial_and_is_named():
    setup = setup_of("bucket-cycle")
    found = together(setup, parts_of(setup, Turned))
    assert found.status == "failed"
    assert found.reason.startswith("rank 2: MismatchError: collected row at rank 2")


def test_a_wrong_id_that_a_rank_does_not_raise_fails_the_trial():
    class Deaf(RankOfAWorld):
        def run(self, turn):
            return {} if turn.wrong else super().run(turn)

    found = facts_of(setup_of("wrong-id-twice"), 0, Deaf)
    assert found["failed"] == "expected the assertion duplicate_expert, received a result"


def test_an_assertion_that_names_another_place_fails_the_trial():
    class Elsewhere(RankOfAWorld):
        def run(self, turn):
            if turn.wrong:
                raise DeviceAssertion(turn.wrong.name, turn.wrong.rank, 0, 0, turn.wrong.expert)
            return super().run(turn)

        def is_poisoned(self):
            return True

    found = facts_of(setup_of("wrong-id-beyond"), 3, Elsewhere)
    assert found["failed"].startswith("expected the assertion ('expert_out_of_range', 3, 7, 7, 96)")
    assert "failed" not in facts_of(setup_of("wrong-id-beyond"), 2, Elsewhere)


@pytest.mark.parametrize(("name", "rank"), [("a-wrong-sum", 3), ("a-wrong-row", 1)])
def test_a_comparison_that_lets_a_turned_bit_pass_fails_the_trial(monkeypatch, name, rank):
    monkeypatch.setattr(protocol, "compare", lambda *told: 1)
    found = facts_of(setup_of(name), rank)
    assert found["failed"] == "expected the comparison to find a bit that was turned, received no difference"


GOOD = {"count": 1, "exact": 1, "free": 0, "elements": 1, "digest": "n0", "protocol": "p"}


def test_a_rank_that_says_nothing_fails_the_trial_with_its_ending():
    said = dict.fromkeys((0, 2, 3), GOOD)
    found = together(setup_of("bucket-cycle"), said, endings={1: "signal: ended by SIGKILL"})
    assert (found.status, found.reason) == ("failed", "rank 1: signal: ended by SIGKILL")


def test_a_rank_with_another_library_than_was_planned_voids_the_trial():
    said = dict.fromkeys(range(4), GOOD) | {3: {**GOOD, "digest": "n1"}}
    found = together(setup_of("bucket-cycle"), said)
    expected = "digest: the plan expects n0, the loaded library reports n1"
    assert (found.status, found.reason) == ("void", expected)


def test_a_trial_that_ranks_left_for_the_sake_of_one_that_says_nothing_wrong_has_failed():
    said = dict.fromkeys(range(4), GOOD) | {1: {**GOOD, "told": "a rank is gone"}}
    found = together(setup_of("bucket-cycle"), said)
    assert (found.status, found.reason) == ("failed", "rank 1: a rank is gone")


UNMET = "coverage condition: expected {}, counted none"


def switched(switches, rank):
    """What a rank counts whose library reports these controls."""

    class Switched(RankOfAWorld):
        def __init__(self, setup, rank):
            super().__init__(setup, rank)
            self.identity = {**self.identity, "switches": switches}

    return lambda setup: facts_of(setup, rank, Switched)


def test_one_rank_without_its_control_does_not_meet_the_condition():
    setup = setup_of("control all")
    said = parts_of(setup) | {3: switched({}, 3)(setup)}
    assert together(setup, said).reason == UNMET.format("loaded switches")


def test_a_control_of_one_role_must_be_refused_by_every_rank():
    setup = setup_of("one-role UNION_NOTIFY")
    refusing, agreeing = ({"count": count, "exact": 0, "free": 0, "elements": 0} for count in (1, 0))
    assert together(setup, dict.fromkeys(range(4), refusing)).status == "ok"
    for silent in ((0,), range(4)):
        said = {rank: agreeing if rank in silent else refusing for rank in range(4)}
        assert together(setup, said).reason == UNMET.format("refused ranks")


def test_a_control_that_one_role_may_have_alone_is_met_by_that_role_alone():
    setup = setup_of("one-role UNION_REDUCE_PREFIX")
    own = dict(Arm.parse(setup.trial.arm).switches)
    parts = {rank: switched(own if rank < 2 else {}, rank)(setup) for rank in range(4)}
    assert together(setup, parts).times_met == 2
    for rank, switches in ((1, {}), (3, own)):
        other = together(setup, parts | {rank: switched(switches, rank)(setup)})
        assert other.reason == UNMET.format("role switches")


def test_host_counts_must_be_read_by_every_ffn_rank():
    setup = setup_of("host-counts")
    said = {rank: {**GOOD, "count": 3} for rank in range(4)}
    assert together(setup, said).times_met == 3
    assert together(setup, said | {1: {**GOOD, "count": 0}}).reason == UNMET.format("reused counts")


def test_what_failed_first_is_the_reason_of_a_rank_that_cannot_give_back_either():
    class Broken(Turned):
        def close(self):
            raise DeviceError("an illegal memory access was encountered")

    assert facts_of(setup_of("bucket-cycle"), 2, Broken)["lost"].startswith("MismatchError: collected row")
    with pytest.raises(DeviceError):
        protocol.perform(setup_of("bucket-cycle"), opening(lambda setup: Broken.close(None)), SimpleNamespace(rank=2))
