"""Ranks that are late, and ranks that are killed."""

import re

import pytest

pytest.importorskip("torch")
from tests.device.company import Played
from tests.device.late import APART_S, LATE_S

pytestmark = pytest.mark.requires("gpus:2", "one-worker")

NAMED = r"^RuntimeError: after (\S+) s, stale 0, (WaitTimeoutError|PeerTimeoutError): .*rank \d"


def test_the_first_exchange_may_be_twenty_seconds_late_and_the_second_may_not(late: Played) -> None:
    found = late.value("first_exchange_may_be_late", 1)
    assert late.report("first_exchange_may_be_late", 1)["seconds"] > LATE_S
    assert "expected rank 0 to arrive" in found["said"]
    assert 5 <= found["seconds"] < 8


def test_the_late_rank_learns_that_it_was_given_up(late: Played) -> None:
    assert "received from rank 1" in late.value("first_exchange_may_be_late", 0)["said"]


def test_ranks_may_capture_a_graph_half_a_minute_apart(apart: Played) -> None:
    assert apart.value("graphs_captured_apart", 1) > APART_S
    assert apart.value("graphs_captured_apart", 0) > APART_S - 5


KILLED = {"killed": 1, "killed_source_of_four": 3, "killed_ffn_of_four": 1}
SCENARIO = {"killed": "source_of_one_to_one", "killed_source_of_four": "source_of_two_to_two"}


@pytest.fixture(params=KILLED)
def crime(request, killed, killed_source_of_four, killed_ffn_of_four) -> tuple[Played, list[str], int]:
    """A company whose rank was killed, what the others raised, and the victim."""
    played, victim = request.getfixturevalue(request.param), KILLED[request.param]
    scenario = SCENARIO.get(request.param, "ffn_of_two_to_two")
    others = [rank for rank in range(len(played.exits)) if rank != victim]
    return played, [played.error(scenario, rank) for rank in others], victim


def test_every_rank_that_is_left_names_a_rank_and_has_no_stale_result(crime) -> None:
    assert all(re.match(NAMED, error) for error in crime[1]), crime[1]


def test_the_missing_rank_is_named_with_its_phase_and_what_was_seen(crime) -> None:
    """Where an FFN rank of four is lost, another may miss a source first, which waits for the lost one."""
    lost_ffn_of_four = len(crime[1]) == 3 and crime[2] < 2
    missing = r"\d" if lost_ffn_of_four else str(crime[2])
    wanted = rf"(dispatch|combine) \S.* at rank \d: expected rank {missing} to arrive with \d+, received \d+"
    assert any(re.search(wanted, error) for error in crime[1]), crime[1]


def test_every_rank_that_is_left_reports_within_ten_seconds(crime) -> None:
    assert all(float(re.match(NAMED, error).group(1)) < 10 for error in crime[1]), crime[1]


def test_every_rank_that_is_left_leaves_with_an_exit_code(crime) -> None:
    played, _, victim = crime
    assert played.exits == [-9 if rank == victim else 1 for rank in range(len(played.exits))]
