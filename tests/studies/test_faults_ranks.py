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

pytest.importorskip("torch")
from tests.studies.fault_ranks import DIES, FAULTS, HANGS, TIMES_OUT
from tests.studies.faulty_worlds import library
from tests.studies.test_faults import DRAINED, SETTINGS, SMALL

pytestmark = pytest.mark.requires("torch")

DRAINED_ROWS = "rank 1: 4 of 32 collected rows differ, 4 of them unwritten, exchange 1 of its round"
ADDRESS = "rank 1: RuntimeError: CUDA error: an illegal memory access was encountered"
DAY = [
    (Trial(NOTHING, "afdep", "1A1F", "rows"), "exact", 4, None),
    (Trial(DRAINED, "afdep", "1A1F"), "passed", 4, None),
    (Trial(DRAINED, "afdep", "1A1F", "rows"), "caught: mismatch", 2, DRAINED_ROWS),
    (Trial(DRAINED, "afdep", "1A1F", TIMES_OUT), "caught: named error", 2, "rank 1: WaitTimeoutError: dispatch counts"),
    (Trial(NOTHING, "afdep", "1A1F", "counts"), "exact", 4, None),
    (Trial(DRAINED, "afdep", "1A1F", FAULTS), "caught: device fault", 2, ADDRESS),
    (Trial(NOTHING, "afdep", "1A1F", "receiver"), "exact", 4, None),
]
NIGHT = [
    (Trial(DRAINED, "afdep", "1A1F", HANGS), "caught: hang", 2, "rank 1: kernels that still run after 1 s"),
    (Trial(DRAINED, "afdep", "1A1F", DIES), "void", None, "rank 1: exit code 9; last on stderr: none"),
    (Trial(NOTHING, "afdep", "1A1F", "receiver"), "exact", 4, None),
]
"""Trials, what comes of them, exchanges that ran and how the reason begins; one start runs as many as it can."""


def ran(wanted, folder):
    trials = tuple(trial for trial, *_ in wanted)
    edited = {edits: library(edits) for edits in {trial.edits(Batch((), edits=MARKS_AND_DELAYS)) for trial in trials}}
    digests = {edits: path.parent.name for edits, path in edited.items()}
    own = tuple(dict.fromkeys(trial.injected for trial in trials))
    batch = Batch(trials, "cuda", "1A1F", edits=MARKS_AND_DELAYS, libraries=own, limit_s=60.0)
    settings = replace(SETTINGS, rounds=2, shape=replace(SMALL, exchanges=2), stuck_s=1.0, timeout_s=1.0)
    fakes = {"harness/ranks/device.py": "fault_ranks.py", "tests/studies/faulty_worlds.py": "faulty_worlds.py"}
    files = {path: ROOT / "tests" / "studies" / name for path, name in fakes.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "library", lambda slot, edits: Library(str(edited[edits]), digests[edits]))
        return run(prepare("faults", settings, folder, files), folder, blocks=(Block((batch,)),))


def check(ran, wanted):
    """Each trial has one row, which is what its kernels did."""
    assert len(ran.rows) == len(wanted)
    assert ran.told == [row.status for row in ran.rows]
    for row, (trial, outcome, exchanges, reason) in zip(ran.rows, wanted, strict=True):
        assert (row.control, row.late) == (trial.control, trial.late)
        assert program.outcome(row) == outcome, row.reason
        assert (reason or "") in (row.said or row.reason or "")
        assert (row.exchanges if outcome != "void" else None) == exchanges


def test_one_start_runs_on_behind_a_wrong_row_and_a_time_out_and_a_fault_alone_takes_another(tmp_path):
    day = ran(DAY, tmp_path)
    check(day, DAY)
    assert len({row.seconds for row in day.rows}) == 2
    assert (day.executor.failures, report.status(day.results)) == ({}, 0)


@pytest.mark.night
def test_ranks_are_started_anew_behind_a_hang_and_a_death_which_is_told(tmp_path):
    night = ran(NIGHT, tmp_path)
    check(night, NIGHT)
    assert len({row.seconds for row in night.rows}) == 3
    assert night.executor.failures == {}
