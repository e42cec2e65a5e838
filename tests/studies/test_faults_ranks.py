"""Rank processes that run edited trees in turn: what one trial leaves for the next, whatever its kernels did.

The plan, the executor, the processes, what they compare and what they say are real; the simulator stands for the GPUs.
"""

from dataclasses import replace

import pytest

from harness.core import trees
from harness.core.identity import Library
from harness.studies.faults import program, report
from harness.studies.faults.mutants import MARKS_AND_DELAYS
from harness.studies.faults.trials import NOTHING, Trial
from harness.study import Batch, Block
from tests.studies.executing import ROOT, prepare, run
from tests.studies.fault_ranks import DIES, FAULTS, HANGS, TIMES_OUT
from tests.studies.faulty_worlds import library
from tests.studies.test_faults import DRAINED, SETTINGS, SMALL

pytestmark = pytest.mark.requires("torch")

RAN = [
    (Trial(NOTHING, "afdep", "1A1F", "rows"), "exact", 12, None),
    (Trial(DRAINED, "afdep", "1A1F"), "passed", 12, None),
    (
        *(Trial(DRAINED, "afdep", "1A1F", "rows"), "caught: mismatch", 2),
        "rank 1: 4 of 32 collected rows differ, 4 of them unwritten, exchange 1 of its round",
    ),
    (Trial(DRAINED, "afdep", "1A1F", TIMES_OUT), "caught: named error", 2, "rank 1: WaitTimeoutError: dispatch counts"),
    (Trial(NOTHING, "afdep", "1A1F", "counts"), "exact", 12, None),
    (
        *(Trial(DRAINED, "afdep", "1A1F", FAULTS), "caught: device fault", 2),
        "rank 1: RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
    (Trial(DRAINED, "afdep", "1A1F", HANGS), "caught: hang", 2, "rank 1: kernels that still run after 1 s"),
    (Trial(DRAINED, "afdep", "1A1F", DIES), "void", None, "rank 1: exit code 9; last on stderr: none"),
    (Trial(NOTHING, "afdep", "1A1F", "receiver"), "exact", 12, None),
]
TRIALS = tuple(trial for trial, *_ in RAN)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    edited = {edits: library(edits) for edits in {trial.edits(Batch((), edits=MARKS_AND_DELAYS)) for trial in TRIALS}}
    digests = {edits: path.parent.name for edits, path in edited.items()}
    own = tuple(dict.fromkeys(trial.injected for trial in TRIALS))
    batch = Batch(TRIALS, "cuda", "1A1F", edits=MARKS_AND_DELAYS, libraries=own, limit_s=60.0)
    settings = replace(SETTINGS, shape=replace(SMALL, exchanges=2), stuck_s=1.0, timeout_s=1.0)
    fakes = {"harness/ranks/device.py": "fault_ranks.py", "tests/studies/faulty_worlds.py": "faulty_worlds.py"}
    files = {path: ROOT / "tests" / "studies" / name for path, name in fakes.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "library", lambda slot, edits: Library(str(edited[edits]), digests[edits]))
        made = prepare("faults", settings, folder := tmp_path_factory.mktemp("ranks"), files)
        return run(made, folder, blocks=(Block((batch,)),))


def test_ranks_are_started_anew_behind_a_fault_a_hang_and_a_death_alone(ran):
    assert len(ran.rows) == len(RAN)
    assert len({row.seconds for row in ran.rows}) == 4
    assert ran.told == [row.status for row in ran.rows]


@pytest.mark.parametrize("index", range(len(RAN)), ids=[outcome for _, outcome, _, _ in RAN])
def test_each_trial_ends_as_its_kernels_did(ran, index):
    trial, outcome, exchanges, reason = RAN[index]
    (row,) = [one for one in ran.rows if (one.control, one.late) == (trial.control, trial.late)]
    assert program.outcome(row) == outcome, row.reason
    assert (reason or "") in (row.said or row.reason or "")
    assert (row.exchanges if outcome != "void" else None) == exchanges


def test_a_rank_that_died_in_a_fault_is_told_and_what_was_caught_is_no_failure_of_the_run(ran):
    (reason,) = ran.executor.failures.values()
    assert reason.startswith("rank 1: exit code 9; last on stderr: none")
    assert report.status(ran.results) == 0
