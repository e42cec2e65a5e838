"""Ranks that share GPUs under MPS, on the seats that their placement gives them."""

import pytest

pytest.importorskip("torch")
from afdep import Layout
from harness.machine.gpus import place
from tests.device.colocated import LAYOUTS
from tests.device.company import Played

pytestmark = pytest.mark.requires("gpus:2", "one-worker")

SILENT = {"silent_source": 3, "silent_ffn": 1, "silent_source_of_the_symmetric_arm": 3}
TIMEOUT_S = 2.0

Companies = dict[tuple[str, int], Played]


@pytest.mark.parametrize("gpus", [1, 2], ids="{}gpu".format)
@pytest.mark.parametrize("arm", ["m2n", "afdep"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_exact_on_shared_gpus(colocated: Companies, layout: str, arm: str, gpus: int) -> None:
    played = colocated[layout if gpus == 2 else "2A2F", gpus]
    ranks = int(layout[0]) + int(layout[2])
    assert [played.value(f"exact_{layout.lower()}", rank)[arm] for rank in range(ranks)] == ["ok"] * ranks


def test_a_rank_sees_no_more_sms_than_its_share(colocated: Companies) -> None:
    seats = place(Layout.parse("2A2F"), 2).seats
    sms = [colocated["2A2F", 2].value("share_of_sms", rank) for rank in range(4)]
    assert all(48 <= seen <= seat.sms(132) for seen, seat in zip(sms, seats, strict=True)), sms


@pytest.mark.parametrize("scenario", ["counts_of_replays", "idle_then_empty"])
def test_it_holds_on_every_rank_of_two_to_one(colocated: Companies, scenario: str) -> None:
    assert [colocated["2A1F", 2].error(scenario, rank) for rank in range(3)] == ["ok"] * 3


def test_symmetric_memory_on_a_shared_gpu_is_replaced_with_a_line_in_the_log(colocated: Companies) -> None:
    for rank in range(4):
        found = colocated["2A2F", 2].value("symmetric_asked_for", rank)
        assert found["windows"] == "ipc"
        assert any("symmetric memory does not serve here" in line for line in found["log"])


def _others(colocated: Companies, scenario: str) -> list[dict[str, object]]:
    return [colocated["2A2F", 2].value(scenario, rank) for rank in range(4) if rank != SILENT[scenario]]


@pytest.mark.parametrize("scenario", SILENT)
def test_every_other_rank_of_four_names_a_rank_when_one_is_silent(colocated: Companies, scenario: str) -> None:
    said = [str(found["said"]) for found in _others(colocated, scenario)]
    assert all(one.startswith(("WaitTimeoutError", "PeerTimeoutError")) and "rank" in one for one in said), said


@pytest.mark.parametrize("scenario", [name for name in SILENT if "source" in name])
def test_a_silent_source_of_four_is_named(colocated: Companies, scenario: str) -> None:
    said = [str(found["said"]) for found in _others(colocated, scenario)]
    assert any(f"expected rank {SILENT[scenario]} to arrive" in one for one in said), said


@pytest.mark.parametrize("scenario", SILENT)
def test_every_other_rank_of_four_learns_of_it_in_time(colocated: Companies, scenario: str) -> None:
    assert all(TIMEOUT_S <= found["seconds"] < TIMEOUT_S + 4 for found in _others(colocated, scenario))


@pytest.mark.parametrize("scenario", SILENT)
def test_no_rank_of_four_is_left_with_stale_sums(colocated: Companies, scenario: str) -> None:
    assert [found["stale"] for found in _others(colocated, scenario)] == [0, 0, 0]
