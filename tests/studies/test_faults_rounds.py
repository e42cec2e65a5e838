"""Rounds of one rank: which error says what of its kernels, and what it keeps once a peer is gone."""

import pytest

from afdep.device_errors import DeviceError, WaitTimeoutError
from harness.studies.faults.rounds import FAULT, LOST, MISMATCH, NAMED, STUCK, RoundError, kind_of, run_trial
from harness.studies.faults.trials import EXACT
from harness.study import VoidError
from tests.studies.faulty_worlds import alone

DIGEST = "n0123abcd"
ERRORS = [
    (WaitTimeoutError(0, "dispatch counts", [1], 1, 0), NAMED),
    (DeviceError("an illegal memory access was encountered"), FAULT),
    (RuntimeError("CUDA error: misaligned address"), FAULT),
    (RuntimeError("CUDA out of memory"), None),
    (RuntimeError("Connection closed by peer"), None),
    (IndexError("of the harness itself"), None),
    (RoundError(STUCK, "still runs"), STUCK),
]
TELLING = [error for error, kind in ERRORS if kind is not None]


@pytest.mark.parametrize(("error", "expected"), ERRORS, ids=lambda value: str(value).splitlines()[0])
def test_an_error_of_a_round_is_of_its_kind(error, expected):
    assert kind_of(error) == expected


class Broken:
    """A rank whose second round fails with an error, and which counts the rounds."""

    digest, exchanges = DIGEST, 5

    def __init__(self, error):
        self.error, self.rounds, self.is_closed = error, 0, False

    def marks(self):
        return (0,)

    def run_round(self, number):
        self.rounds += 1
        if number == 1 and self.error is not None:
            raise self.error
        return 5

    def close(self):
        self.is_closed = True


class Wrong(Broken):
    def run_round(self, number):
        raise RoundError(MISMATCH, "rows differ", 3)


def ran(rank, agree=alone):
    """What a rank says, and whether it can run another trial."""
    facts = {}
    is_usable = run_trial(lambda: rank, 6, agree, facts)
    return facts, is_usable


@pytest.mark.parametrize("error", TELLING, ids=lambda value: str(value).splitlines()[0])
def test_no_round_is_run_behind_one_that_failed(error):
    rank = Broken(error)
    facts, is_usable = ran(rank)
    assert (rank.rounds, facts["exact"], facts["ended"], facts["marks"]) == (2, 5, kind_of(error), (0,))
    assert (facts["exchanges"], facts["digest"]) == (10, DIGEST)
    assert rank.is_closed == is_usable == (facts["ended"] not in (FAULT, STUCK))


@pytest.mark.parametrize("error", [error for error, kind in ERRORS if kind is None], ids=str)
def test_a_rank_that_fails_for_no_kernels_sake_is_lost(error):
    facts, is_usable = ran(Broken(error))
    assert (facts["ended"], facts["exact"], facts["marks"], is_usable) == (LOST, 5, (0,), False)
    assert str(error) in facts["failed"]


def test_a_round_that_failed_on_a_peer_is_the_last_here_too():
    rank = Broken(None)
    facts, _ = ran(rank, lambda ended: [ended, MISMATCH])
    assert (rank.rounds, facts["ended"]) == (1, EXACT)


def test_a_rank_whose_buffer_cannot_be_made_says_so_and_can_run_another_trial():
    def refuse():
        raise WaitTimeoutError(0, "dispatch counts", [1], 1, 0)

    facts = {}
    assert run_trial(refuse, 6, alone, facts)
    assert (facts["ended"], facts["exchanges"]) == (NAMED, 0)


def test_a_rank_that_has_another_library_voids_what_is_left():
    def refuse():
        raise VoidError("another library")

    with pytest.raises(VoidError):
        run_trial(refuse, 6, alone, {})


def lost(ended):
    raise RuntimeError("connection closed")


def test_a_rank_whose_peer_is_gone_keeps_what_it_has_found():
    facts, is_usable = ran(Wrong(None), lost)
    assert (facts["ended"], facts["exact"], is_usable) == (MISMATCH, 3, False)
    assert facts["failed"] == "rows differ; then RuntimeError: connection closed"


def test_a_rank_whose_peer_is_gone_is_lost_and_keeps_its_marks():
    facts, is_usable = ran(Broken(None), lost)
    assert (facts["ended"], facts["failed"], is_usable) == (LOST, "RuntimeError: connection closed", False)
    assert (facts["exact"], facts["marks"]) == (5, (0,))


def test_an_error_of_giving_back_is_not_one_of_kernels():
    def refuse():
        raise WaitTimeoutError(0, "dispatch counts", [1], 1, 0)

    rank = Broken(None)
    rank.close = refuse
    assert ran(rank)[0]["ended"] == LOST
