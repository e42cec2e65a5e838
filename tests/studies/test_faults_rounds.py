"""Rounds of one rank: which error says what of its kernels, and what it keeps once a peer is gone."""

import pytest

from afdep.device_errors import DeviceError, WaitTimeoutError
from harness.studies.faults.rounds import (
    BROKEN,
    EXACT,
    FAULT,
    LEFT,
    MISMATCH,
    NAMED,
    STUCK,
    Report,
    RoundError,
    kind_of,
    run_rounds,
)
from tests.studies.faulty_worlds import alone

DIGEST = "n0123abcd"
ERRORS = [
    (WaitTimeoutError(0, "dispatch counts", [1], 1, 0), NAMED),
    (DeviceError("an illegal memory access was encountered"), FAULT),
    (RuntimeError("CUDA error: misaligned address"), FAULT),
    (RuntimeError("CUDA out of memory"), BROKEN),
    (IndexError("of the harness itself"), BROKEN),
    (RoundError(STUCK, "still runs"), STUCK),
    (RoundError(LEFT, "gone"), LEFT),
]


@pytest.mark.parametrize(("error", "expected"), ERRORS, ids=lambda value: str(value).splitlines()[0])
def test_an_error_of_a_round_is_of_its_kind(error, expected):
    assert kind_of(error) == expected


class Broken:
    """A rank whose second round fails with an error, and which counts the rounds."""

    digest = DIGEST

    def __init__(self, error):
        self.error, self.rounds = error, 0

    def marks(self):
        return (0,)

    def run_round(self, number):
        self.rounds += 1
        if number == 1 and self.error is not None:
            raise self.error
        return 5


@pytest.mark.parametrize("error", [error for error, _ in ERRORS], ids=lambda value: str(value).splitlines()[0])
def test_no_round_is_run_behind_one_that_failed(error):
    rank, report = Broken(error), Report()
    run_rounds(rank, 6, 5, alone, report)
    assert (rank.rounds, report.exact, report.ended, report.marks) == (2, 5, kind_of(error), (0,))
    assert (report.exchanges, report.digest) == (10, DIGEST)


def test_a_round_that_failed_on_a_peer_is_the_last_here_too():
    rank, report = Broken(None), Report()
    run_rounds(rank, 6, 5, lambda ended: [ended, MISMATCH], report)
    assert (rank.rounds, report.ended) == (1, EXACT)


def lost(ended):
    raise RoundError(LEFT, "connection closed")


class Wrong(Broken):
    def run_round(self, number):
        raise RoundError(MISMATCH, "rows differ", 3)


@pytest.mark.parametrize(
    ("rank", "ended", "reason"),
    [(Broken(None), LEFT, "connection closed"), (Wrong(None), MISMATCH, "rows differ; then connection closed")],
)
def test_a_rank_whose_peer_is_gone_keeps_what_it_has_found(rank, ended, reason):
    report = Report()
    run_rounds(rank, 6, 5, lost, report)
    assert (report.ended, report.reason) == (ended, reason)
