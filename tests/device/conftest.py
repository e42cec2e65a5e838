"""The companies of the device tests. Those that mostly wait play at once; the steady one has the GPUs to itself."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from afdep import Layout
from harness.colocation import place
from harness.mps import private_daemon
from tests.device.company import Company, Played, Running

_SHARING = place(Layout.parse("2A2F"), 1)

WAITING = {
    "late": Company("late", ["first_exchange_may_be_late"]),
    "apart": Company("late", ["graphs_captured_apart"]),
    "failing": Company(
        "failing",
        [
            *("ranks_made_differently", "environments_that_differ", "refused_shape"),
            *("silent_ffn", "silent_source", "silent_ffn_of_the_symmetric_arm"),
            *("refused_call", "wrong_id", "wrong_id_in_a_graph", "too_many_tokens", "other_bucket", "wrong_order"),
            "captures",
        ],
    ),
    "killed": Company("killed", ["source_of_one_to_one"]),
    "killed_source_of_four": Company("killed", ["source_of_two_to_two"], ranks=4, gpus=(0, 0, 1, 1)),
    "killed_ffn_of_four": Company("killed", ["ffn_of_two_to_two"], ranks=4, gpus=(0, 0, 1, 1)),
}
COLOCATED = Company(
    "colocated",
    [
        *("share_of_sms", "exact_on_two_gpus", "exact_on_one_gpu", "counts_of_replays", "symmetric_asked_for"),
        *("idle_then_empty", "silent_source", "silent_ffn", "silent_source_of_the_symmetric_arm"),
    ],
    ranks=4,
    gpus=(0, 0, 1, 1),
)
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
def colocated(waiting: dict[str, Played]) -> Iterator[Played]:
    """Four ranks under an MPS daemon of their own, each with the share that four on one GPU have."""
    with ExitStack() as stack:
        daemon = stack.enter_context(private_daemon(os.environ))
        client = daemon.client(_SHARING.seats[0].percentage)
        yield Running(Company(**{**vars(COLOCATED), "environ": client})).finish()


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
