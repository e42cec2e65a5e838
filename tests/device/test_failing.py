"""Something is wrong on one of two ranks: each learns what, in time, and nobody gets a stale result."""

import pytest

pytest.importorskip("torch")
from afdep import controls
from tests.device.company import Played
from tests.device.failing import OTHER

pytestmark = pytest.mark.requires("gpus:2", "one-worker")

TIMEOUT_S = 2.0
WIRE = [control.name for control in controls.CONTROLS if control.scope == "wire"]
FREE = [control.name for control in controls.CONTROLS if control.scope == "launch"] + ["XDG_CACHE_HOME", "CXX"]
SILENT = {"silent_ffn": (1, 0), "silent_source": (0, 1), "silent_ffn_of_the_symmetric_arm": (1, 0)}
"""By scenario, the rank that waits and the one that is silent."""


def both(failing: Played, scenario: str) -> list[str]:
    return [failing.value(scenario, rank) for rank in (0, 1)]


@pytest.mark.parametrize("field", OTHER)
def test_ranks_made_differently_all_say_what_differs_within_five_seconds(failing: Played, field: str) -> None:
    said = [one[field] for one in both(failing, "ranks_made_differently")]
    assert said[0]["said"] == said[1]["said"]
    assert said[0]["said"].startswith(f"AgreementError: {field}: expected one value at all 2 ranks")
    assert max(one["seconds"] for one in said) < 5


@pytest.mark.parametrize("name", WIRE)
def test_a_variable_that_peers_see_set_on_one_rank_alone_is_named_by_both(failing: Played, name: str) -> None:
    said = [one[name] for one in both(failing, "environments_that_differ")]
    assert said[0]["said"] == said[1]["said"]
    assert said[0]["said"].startswith(f"AgreementError: {name}: expected one value")
    assert max(one["seconds"] for one in said) < 5


@pytest.mark.parametrize("name", FREE)
def test_a_variable_that_peers_do_not_see_may_differ(failing: Played, name: str) -> None:
    assert [one[name]["said"] for one in both(failing, "environments_that_differ")] == ["ok", "ok"]


def test_a_shape_refused_on_one_rank_is_a_refusal_on_its_peer(failing: Played) -> None:
    peer, refused = both(failing, "refused_shape")
    assert refused.startswith("ShapeError: hidden")
    assert peer.startswith("PeerRefusedError")
    assert "rank 1" in peer


@pytest.mark.parametrize(("scenario", "ranks"), SILENT.items(), ids=SILENT)
def test_a_silent_rank_is_named_in_time(failing: Played, scenario: str, ranks: tuple[int, int]) -> None:
    waiting, silent = ranks
    found = failing.value(scenario, waiting)
    assert found["said"].startswith("WaitTimeoutError")
    assert f"expected rank {silent} to arrive" in found["said"]
    assert TIMEOUT_S <= found["seconds"] < TIMEOUT_S + 3


@pytest.mark.parametrize("scenario", ["silent_ffn", "silent_ffn_of_the_symmetric_arm"])
def test_what_a_source_collected_after_a_time_out_is_poisoned(failing: Played, scenario: str) -> None:
    assert failing.value(scenario, 1)["poisoned"] == [True]


@pytest.mark.parametrize(("scenario", "ranks"), SILENT.items(), ids=SILENT)
def test_the_call_after_a_failure_raises(failing: Played, scenario: str, ranks: tuple[int, int]) -> None:
    assert failing.value(scenario, ranks[0])["next"].startswith("DeadBufferError")


@pytest.mark.parametrize("scenario", ["refused_call", "refused_call_in_a_capture"])
def test_a_refused_call_is_raised_by_the_peer_too(failing: Played, scenario: str) -> None:
    peer, caller = both(failing, scenario)
    assert caller.startswith("ShapeError: x")
    assert peer.startswith("PeerRefusedError")
    assert "rank 1" in peer


@pytest.mark.parametrize("scenario", ["wrong_id", "wrong_id_in_a_graph"])
def test_a_wrong_id_is_raised_by_every_rank(failing: Played, scenario: str) -> None:
    peer, source = both(failing, scenario)
    assert source.startswith("DeviceAssertion: device assertion expert_out_of_range: rank 1, token ")
    assert peer.startswith("DeviceAssertion: device assertion expert_out_of_range: rank 1")


def test_a_word_that_counts_more_tokens_than_there_are_is_raised_by_every_rank(failing: Played) -> None:
    peer, source = both(failing, "too_many_tokens")
    assert "rank 1, expected num_tokens 0..16, received 17" in source
    assert peer.startswith("TokenCountAssertion: device assertion num_tokens_out_of_range: rank 1")


def test_ranks_that_pass_different_buckets_both_say_so(failing: Played) -> None:
    assert [said.partition(":")[0] for said in both(failing, "other_bucket")] == ["BucketMismatchError"] * 2


def test_a_call_out_of_order_is_refused(failing: Played) -> None:
    assert [said.partition(":")[0] for said in both(failing, "wrong_order")] == ["OrderError", "OrderError"]


@pytest.mark.parametrize("call", ["construction", "first exchange", "synchronize"])
def test_what_cannot_be_captured_says_so_and_the_capture_goes_on(failing: Played, call: str) -> None:
    for found in both(failing, "captures"):
        assert found[call].startswith("CaptureError")
        assert found[f"{call}, capture"] == "ok"


@pytest.mark.parametrize("call", ["construction", "first exchange"])
def test_the_next_step_of_a_lazy_build_is_to_build_before_capture(failing: Played, call: str) -> None:
    assert all("Build before capture" in found[call] for found in both(failing, "captures"))


def test_host_counts_are_refused_under_capture(failing: Played) -> None:
    ffn = failing.value("captures", 0)
    assert ffn["host counts"].startswith("CaptureError")
    assert ffn["host counts, capture"] == "ok"


def test_a_process_captures_and_replays_exchanges_after_a_refused_capture(failing: Played) -> None:
    assert [found["exchange afterwards"] for found in both(failing, "captures")] == ["ok", "ok"]
