"""Ranks on two GPUs: long runs, graphs, several Buffers and their tear-down, every result compared bit for bit."""

import pytest

pytest.importorskip("torch")
from tests.device.company import Played
from tests.device.steady import FREE_BYTES

pytestmark = pytest.mark.requires("gpus:2", "one-worker")

CLAIMS = {
    "every arm and dtype is exact through the expert transform": "exact_arms",
    "replies are collected into a tensor of the caller": "collected_in_place",
    "host counts belong to their exchange": "host_counts",
    "a thousand exchanges in a row are exact": "thousand_small",
    "a thousand exchanges in a row are exact at hidden 2048": "thousand_large",
    "ten thousand replays each carry their own number": "ten_thousand_replays",
    "two graphs of one Buffer replay in any order": "two_graphs_of_one_buffer",
    "two Buffers of one process do not disturb each other": "two_buffers",
}


@pytest.mark.parametrize("scenario", CLAIMS.values(), ids=CLAIMS)
def test_it_holds_on_both_ranks(steady: Played, scenario: str) -> None:
    assert [steady.error(scenario, rank) for rank in (0, 1)] == ["ok", "ok"]


def test_a_new_process_uses_the_gpus_of_killed_ranks_at_once(killed: Played, steady: Played) -> None:
    assert killed.exits[1] == -9
    assert [steady.error("exact_exchange", rank) for rank in (0, 1)] == ["ok", "ok"]


def test_each_maker_of_windows_serves_with_the_same_results(steady: Played) -> None:
    expected = {"None": "symmetric", "symmetric": "symmetric", "ipc": "ipc"}
    assert [steady.value("forced_windows", rank) for rank in (0, 1)] == [expected, expected]


@pytest.mark.parametrize("maker", ["ipc", "symmetric"])
def test_fifty_buffers_leave_neither_memory_nor_descriptors_behind(steady: Played, maker: str) -> None:
    left = [steady.value("hundred_buffers", rank)[maker] for rank in (0, 1)]
    assert all(one["bytes"] < FREE_BYTES and one["descriptors"] <= 0 for one in left), left


def test_all_ranks_leave_with_exit_code_0(steady: Played) -> None:
    assert steady.exits == [0, 0]
