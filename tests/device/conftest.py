"""The companies of the device tests. Those that mostly wait play at once; the steady one has the GPUs to itself."""

import os

import pytest

from afdep import Layout
from harness.machine.gpus import place
from harness.machine.mps import private_daemon
from tests.device.company import Company, Played, Running

WAITING = {
    "late": Company("late", ["first_exchange_may_be_late"]),
    "apart": Company("late", ["graphs_captured_apart"]),
    "failing": Company(
        "failing",
        [
            *("ranks_made_differently", "environments_that_differ", "refused_shape"),
            *("silent_ffn", "silent_source", "silent_ffn_of_the_symmetric_arm"),
            *("refused_call", "wrong_id", "wrong_id_in_a_graph", "too_many_tokens", "other_bucket", "wrong_order"),
            *("refused_call_in_a_capture", "captures"),
        ],
    ),
    "killed": Company("killed", ["source_of_one_to_one"]),
    "killed_source_of_four": Company("killed", ["source_of_two_to_two"], ranks=4, gpus=(0, 0, 1, 1)),
    "killed_ffn_of_four": Company("killed", ["ffn_of_two_to_two"], ranks=4, gpus=(0, 0, 1, 1)),
}
COLOCATED: dict[tuple[str, int], list[str]] = {
    ("2A1F", 2): ["exact_2a1f", "counts_of_replays", "idle_then_empty"],
    ("3A1F", 2): ["exact_3a1f"],
    ("1A3F", 2): ["exact_1a3f"],
    ("2A2F", 2): [
        *("share_of_sms", "exact_2a2f", "symmetric_asked_for"),
        *("silent_source", "silent_ffn", "silent_source_of_the_symmetric_arm"),
    ],
    ("2A2F", 1): ["exact_2a1f", "exact_2a2f", "exact_3a1f", "exact_1a3f"],
}
"""By the layout whose placement it has, and how many GPUs: what a company under MPS plays. Any layout fits where all
ranks share one GPU."""
STEADY = Company(
    "steady",
    [
        *("exact_exchange", "exact_arms", "collected_in_place", "host_counts", "forced_windows", "thousand_small"),
        *("thousand_large", "ten_thousand_replays", "two_graphs_of_one_buffer", "two_buffers", "hundred_buffers"),
    ],
)


@pytest.fixture(scope="session")
def needed(request: pytest.FixtureRequest) -> set[str]:
    """The companies that the collected tests ask for."""
    return {name for item in request.session.items for name in getattr(item, "fixturenames", ())}


@pytest.fixture(scope="session")
def waiting(needed: set[str]) -> dict[str, Played]:
    """Companies that mostly wait, each on its own time slices."""
    running = {name: Running(company) for name, company in WAITING.items() if name in needed}
    return {name: company.finish() for name, company in running.items()}


@pytest.fixture(scope="session")
def colocated(waiting: dict[str, Played]) -> dict[tuple[str, int], Played]:
    """Companies on the seats of a placement, one after the other, each under an MPS daemon of its own."""
    return {seating: _seated(*seating, scenarios) for seating, scenarios in COLOCATED.items()}


def _seated(layout: str, gpus: int, scenarios: list[str]) -> Played:
    seats = place(Layout.parse(layout), gpus).seats
    with private_daemon(os.environ) as daemon:
        environs = [daemon.client(seat.percentage) for seat in seats]
        gpu_of_rank = [seat.gpu for seat in seats]
        return Running(Company("colocated", scenarios, len(seats), gpu_of_rank, environs, limit_s=45.0)).finish()


@pytest.fixture(scope="session")
def steady(waiting: dict[str, Played]) -> Played:
    """Behind ranks that were killed: fresh processes on the GPUs that these held."""
    return Running(STEADY).finish()


def _of_waiting(name: str) -> object:
    @pytest.fixture(scope="session", name=name)
    def played(waiting: dict[str, Played]) -> Played:
        return waiting[name]

    return played


for _name in WAITING:
    globals()[_name] = _of_waiting(_name)
