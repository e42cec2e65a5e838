"""Rank processes that play planted trees in turn: what one trial leaves for the next, whatever its kernels did.

The processes, their groups, what they compare and what they say are real; the simulator stands for the GPUs.
"""

from dataclasses import replace

import pytest

from harness.device import launch
from harness.faults import trees
from harness.faults.on_gpus import Job, play_all
from harness.faults.trials import Shape
from harness.validation.on_gpus import Gpus
from tests.harness.faulty_worlds import library
from tests.harness.test_faults import TRIALS, trial_of

pytestmark = pytest.mark.requires("torch")

GOES_WELL, ONE_FAULTS, ONE_DIES, ONE_HANGS = 3, 4, 5, 6
"""Seeds, as tests/harness/simulated_fault_rank.py takes them."""

SMALL = Shape(hidden=1024, num_experts=64, top_k=8, tokens=32, transport_sms=8, exchanges=2)
DELAYED = next(
    one for one in TRIALS if (one.library, one.layout, one.arm, one.late) == ("late", "1A1F", "afdep", "rows")
)
PLAYED = [
    (DELAYED, GOES_WELL),
    (trial_of("drained"), GOES_WELL),
    (trial_of("drained", "rows"), GOES_WELL),
    (trial_of("too-many"), GOES_WELL),
    (DELAYED, GOES_WELL),
    (trial_of("drained"), ONE_FAULTS),
    (trial_of("drained"), ONE_HANGS),
    (trial_of("drained"), ONE_DIES),
    (DELAYED, GOES_WELL),
]
OUTCOMES = [
    ("exact", 12, None),
    ("passed", 12, None),
    ("caught: mismatch", 2, "rank 1: 4 of 32 collected rows differ, 4 of them unwritten, exchange 1 of its round"),
    ("caught: named error", 2, "rank 0: DeadlockError: deadlock: expected every wait to end, received 2 that cannot"),
    ("exact", 12, None),
    ("caught: device fault", 2, "rank 1: RuntimeError: CUDA error: an illegal memory access was encountered"),
    ("caught: hang", 2, "rank 1: StuckError: kernels that still run after 1 s"),
    ("void", 0, "rank 1: exit code 9; last on stderr: none"),
    ("exact", 12, None),
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    trials = tuple(replace(trial, seed=seed, shape=SMALL, control="n1") for trial, seed in PLAYED)
    for name in {trial.library for trial in trials} - {trees.SHIPPED}:
        library(name)
    job = Job(trials, tuple({trial.library: "n1" for trial in trials}.items()), 1.0, 1.0, 200.0)
    starts = []

    def start(told, listen):
        starts.append(told)
        return launch.run(replace(told, module="tests.harness.simulated_fault_rank"), listen)

    folder, gpus = tmp_path_factory.mktemp("libraries"), Gpus(2, "none", 132)
    return list(play_all(job, folder, gpus, lambda line: None, start)), len(starts)


def test_ranks_are_started_anew_behind_a_fault_a_hang_and_a_death_alone(outcomes):
    assert outcomes[1] == 4


@pytest.mark.parametrize("index", range(len(PLAYED)), ids=[outcome for outcome, _, _ in OUTCOMES])
def test_each_trial_ends_as_its_kernels_did(outcomes, index):
    found, (outcome, exchanges, reason) = outcomes[0][index], OUTCOMES[index]
    assert found.outcome == outcome, found.reason
    assert (reason or "") in (found.reason or "")
    assert (found.exchanges if outcome != "void" else 0) == exchanges
