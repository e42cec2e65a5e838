"""The simulated NIC orders one queue and no more, moves nothing before its doorbell, and reads its sources late."""

from pathlib import Path

import pytest

from tests.sim.programs import ENGINE, ROOT, compiled, linked, ran

SEEDS = 100
MESSAGES = 64
QUEUE_MESSAGE_US, MESSAGE_US = 0.4, 0.1
"""As nic_cases.cpp sets them: between two messages of one queue pair, and of one NIC."""


@pytest.fixture(scope="module", params=[[], ["-DSIMGPU_THREAD_FIBERS"]], ids=["warp-fibers", "thread-fibers"])
def nic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nic")
    return linked(compiled([*ENGINE, ROOT / "tests/sim/nic_cases.cpp"], folder, *request.param), folder)


def outcomes(nic: Path, case: str) -> set[str]:
    """How the hunted schedules ended: right, wrong, or stuck on a wait."""
    return set(ran(nic, case, SEEDS).stdout.splitlines())


def in_time_order(nic: Path, case: str) -> tuple[str, float]:
    """How the run in time order ended, and after how many microseconds."""
    outcome, _, microseconds = ran(nic, case).stdout.strip().rpartition(" ")
    return outcome, float(microseconds)


SOUND = {
    "flag-behind": "a value posted behind the bytes of its queue",
    "signal": "an addition inlined in the put of its bytes",
    "reuse-after-flush": "staging written again after a flush",
    "full-queue": "as many entries as a queue holds",
    "many-with-doorbells": "many more, each with its doorbell",
    "two-nics-one-word": "additions of two NICs to one word",
    "nic-and-sm-a-word-each": "additions of a NIC and an SM to a word each",
    "self-signal": "the own rank as the peer",
}
UNSOUND = {
    "flag-on-another-pair": "queue pairs are not ordered among themselves",
    "signal-on-another-pair": "nor are additions behind another pair's bytes",
    "reuse-without-flush": "the source is read late",
    "flush-taken-for-landed": "a flush says nothing of the landing",
    "no-fence": "plain stores to the source need a fence before the doorbell",
    "nic-and-sm-one-word": "additions of a NIC and an SM to one word get lost",
}


@pytest.mark.parametrize("case", SOUND)
def test_what_the_nic_promises_holds_under_any_schedule(nic: Path, case: str) -> None:
    assert outcomes(nic, case) == {"right"}


@pytest.mark.parametrize("case", UNSOUND)
def test_what_the_nic_does_not_promise_goes_wrong_under_some_schedule(nic: Path, case: str) -> None:
    assert outcomes(nic, case) == {"right", "wrong"}


@pytest.mark.parametrize("case", ["no-doorbell", "self-no-doorbell"])
def test_nothing_moves_before_the_doorbell(nic: Path, case: str) -> None:
    assert outcomes(nic, case) == {"stuck: the flag"}


def test_a_flush_waits_for_what_was_posted_without_a_doorbell(nic: Path) -> None:
    assert outcomes(nic, "flush-without-doorbell") == {"stuck: NIC flush, the flag"}


def test_a_post_to_a_full_queue_waits_for_a_place(nic: Path) -> None:
    assert outcomes(nic, "overfull-queue") == {"stuck: a place in a NIC queue"}


def test_one_queue_pair_bounds_the_message_rate(nic: Path) -> None:
    saved = in_time_order(nic, "messages-over-1")[1] - in_time_order(nic, "messages-over-2")[1]
    assert saved == pytest.approx(MESSAGES * QUEUE_MESSAGE_US / 2, rel=0.05)


def test_the_nic_bounds_the_message_rate_of_many_queue_pairs(nic: Path) -> None:
    saved = in_time_order(nic, "messages-over-2")[1] - in_time_order(nic, "messages-over-8")[1]
    assert saved == pytest.approx(MESSAGES * (QUEUE_MESSAGE_US / 2 - MESSAGE_US), rel=0.05)
