"""Streams have priorities, opaque kernels take SM slots, and a host actor has its place in a stream's order."""

from pathlib import Path

import pytest

from tests.sim.programs import ENGINE, ROOT, compiled, linked, ran

SEEDS = range(1, 21)


@pytest.fixture(scope="module")
def slots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slots")
    return linked(compiled([*ENGINE, ROOT / "tests/sim/slots.cpp"], folder), folder)


def started_us(slots: Path, *arguments: object) -> float:
    outcome, started = ran(slots, *arguments).stdout.split()
    assert outcome == "ended"
    return float(started)


def test_a_higher_priority_is_placed_as_soon_as_a_slot_is_free(slots: Path) -> None:
    assert 10 < started_us(slots, "waves", 1) < 20


@pytest.mark.parametrize("priority", [0, -1], ids=["equal", "lower"])
def test_without_a_higher_priority_every_earlier_cta_goes_first(slots: Path, priority: int) -> None:
    assert 30 < started_us(slots, "waves", priority) < 40


def test_shared_bytes_of_an_opaque_kernel_keep_others_out(slots: Path) -> None:
    assert started_us(slots, "shared", 60_000, 8_000) > 10


def test_a_kernel_that_fits_beside_an_opaque_one_starts_at_once(slots: Path) -> None:
    assert started_us(slots, "shared", 60_000, 4_000) < 1


def test_a_host_actor_sees_what_the_kernel_before_it_stored(slots: Path) -> None:
    assert {ran(slots, "counted", seed, 1).stdout for seed in SEEDS} == {"ended 3 3\n"}


def test_a_host_actor_of_another_stream_may_see_nothing(slots: Path) -> None:
    assert "ended 0 0\n" in {ran(slots, "counted", seed, 0).stdout for seed in SEEDS}


def test_a_stream_goes_on_when_its_host_actor_has_returned(slots: Path) -> None:
    assert 10 < started_us(slots, "host") < 12
