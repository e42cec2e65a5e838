"""Ranks that share GPUs under MPS."""

import pytest

from tests.device.colocated import LAYOUTS
from tests.device.company import Played

pytestmark = pytest.mark.requires("gpu")

SILENT = {"silent_source": 3, "silent_ffn": 1, "silent_source_of_the_symmetric_arm": 3}
SECONDS = 2.0


@pytest.mark.parametrize("where", ["exact_on_two_gpus", "exact_on_one_gpu"])
@pytest.mark.parametrize("arm", ["m2n", "afdep"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_exact_on_shared_gpus(colocated: Played, layout: str, arm: str, where: str) -> None:
    ranks = int(layout[0]) + int(layout[2])
    assert [colocated.value(where, rank)[f"{layout} {arm}"] for rank in range(ranks)] == ["ok"] * ranks


def test_a_rank_sees_no_more_sms_than_its_share(colocated: Played) -> None:
    assert all(24 <= colocated.value("share_of_sms", rank) <= 33 for rank in range(4))


@pytest.mark.parametrize("scenario", ["counts_of_replays", "idle_then_empty"])
def test_it_holds_on_every_rank_of_two_to_one(colocated: Played, scenario: str) -> None:
    assert [colocated.error(scenario, rank) for rank in range(3)] == ["ok"] * 3


def test_symmetric_memory_on_a_shared_gpu_is_replaced_with_a_line_in_the_log(colocated: Played) -> None:
    for rank in range(4):
        found = colocated.value("symmetric_asked_for", rank)
        assert found["windows"] == "ipc"
        assert any("symmetric memory does not serve here" in line for line in found["log"])


def _others(colocated: Played, scenario: str) -> list[dict[str, object]]:
    return [colocated.value(scenario, rank) for rank in range(4) if rank != SILENT[scenario]]


@pytest.mark.parametrize("scenario", SILENT)
def test_every_other_rank_of_four_names_a_rank_when_one_is_silent(colocated: Played, scenario: str) -> None:
    said = [str(found["said"]) for found in _others(colocated, scenario)]
    assert all(one.startswith(("WaitTimeoutError", "PeerTimeoutError")) and "rank" in one for one in said), said
    assert any(f"expected rank {SILENT[scenario]} to arrive" in one for one in said), said


@pytest.mark.parametrize("scenario", SILENT)
def test_every_other_rank_of_four_learns_of_it_in_time(colocated: Played, scenario: str) -> None:
    assert all(SECONDS <= found["seconds"] < SECONDS + 4 for found in _others(colocated, scenario))


@pytest.mark.parametrize("scenario", SILENT)
def test_no_rank_of_four_is_left_with_stale_sums(colocated: Played, scenario: str) -> None:
    assert [found["stale"] for found in _others(colocated, scenario)] == [0, 0, 0]
