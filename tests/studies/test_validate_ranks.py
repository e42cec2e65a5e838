"""Ranks that run trials in step: what one trial leaves for the next, whatever went wrong in it.

Each rank is given what the simulator gave it. Executor, records, meetings and watchdogs are real; ranks are threads.
"""

import os
import queue
import sys
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from afdep import DeviceError, MismatchError
from harness.core import plan as plans
from harness.core.executor import Executor, Limits
from harness.core.identity import Sources
from harness.core.plan import Plan, Tree, Workspace
from harness.core.process import in_words
from harness.core.worker import Job
from harness.records.table import read, record_files
from harness.studies.validate import program
from harness.study import Batch, Block
from tests.studies.executing import told_by
from tests.studies.validating import SMALL, RankOfAWorld, recorded, settings, setups

pytestmark = pytest.mark.requires("torch")
TRIALS = setups(SMALL, "backends=[cuda]")


def setup_of(name, mode="eager", layout="2A2F"):
    return next(one for one in TRIALS if (one.trial.case, one.trial.mode, one.trial.layout) == (name, mode, layout))


class Dies(BaseException):
    """The process of a rank ends."""


def goes_wrong(what):
    """A rank of whose trial rank 1 does this in its second exchange."""
    if what == "all refuse":
        raise MismatchError("construction", "a group", "none", 0)
    if what == "finds a bit":
        raise MismatchError("collected row", "0x1", "0x0", 1)
    if what == "raises":
        raise ZeroDivisionError("of the harness itself")
    if what == "dies":
        raise Dies("exit code 9")
    threading.current_thread().ended.wait(60)
    raise Dies("exit code 70")


WRONG = {
    "bucket-cycle": "finds a bit",
    "delayed-source": "all refuse",
    "delayed-replies": "raises",
    "skewed-routes": "dies",
    "inactive-source": "hangs",
    "control all": "cannot give back",
}
"""What rank 1 does in these cases; every other one goes well."""

IN_ORDER = [
    *("bucket-cycle", "delayed-source", "delayed-replies", "wrong-id-beyond", "a-wrong-row"),
    *("skewed-routes", "empty-sources", "inactive-source", "skipped-sources", "control all", "one-small-source"),
]
LOST = ("skewed-routes", "inactive-source", "control all")
"""Trials that a rank does not survive."""


class RankInStep(RankOfAWorld):
    """A rank of a thread, which does as WRONG says."""

    def __init__(self, setup, group):
        self.what, self.meet = WRONG.get(setup.trial.case), sys.modules["harness.studies.validate.device"].meet
        if self.what == "all refuse":
            goes_wrong(self.what)
        super().__init__(setup, group.rank)

    def next(self):
        self.meet()
        if self.rank == 1 and self.number == 1 and self.what not in (None, "cannot give back"):
            goes_wrong(self.what)
        return super().next()

    def close(self):
        self.meet()
        if self.rank == 1 and self.what == "cannot give back":
            raise DeviceError("an illegal memory access was encountered")


class Meeting:
    """Where threads meet as processes do: one that ends badly breaks it."""

    def __init__(self, num_ranks):
        self.barrier, self.problems = threading.Barrier(num_ranks), {}

    def __call__(self, group, problem):
        self.problems[threading.current_thread().rank] = problem
        try:
            self.barrier.wait(60)
            found = next((f"rank {rank}: {why}" for rank, why in sorted(self.problems.items()) if why), None)
            self.barrier.wait(60)
        except threading.BrokenBarrierError as error:
            raise RuntimeError("Connection closed by peer") from error
        return found


class Rank(threading.Thread):
    """A process of a rank: it runs the study's program and says what came of each trial."""

    def __init__(self, rank, settings, batch, trials, meeting, say):
        super().__init__(daemon=True)
        self.rank, self.settings, self.batch, self.trials = rank, settings, batch, trials
        self.meeting, self.say = meeting, say
        self.ended = threading.Event()
        self.ending = None

    def run(self):
        batch = replace(self.batch, trials=tuple(self.batch.trials[one] for one in self.trials))
        mouth = SimpleNamespace(say=lambda event, **told: self.say(self.rank, {"event": event, **told}))
        job = SimpleNamespace(gpus=(0, 0, 0, 0), room=None)
        session = SimpleNamespace(job=job, mouth=mouth, opened=lambda **facts: None)
        group = SimpleNamespace(
            rank=self.rank, session=session, settings=self.settings, turn=lambda: None, rank_of=self, library=None
        )
        try:
            for said in program.run(batch, group):
                mouth.say("said", trial=self.trials[said.trial], facts=dict(said.facts))
        except Dies as death:
            self.ending = str(death)
        except Exception as error:
            mouth.say("failed", reason=in_words(error))
            self.ending = "exit code 1"
        if self.ending:
            self.meeting.barrier.abort()
        self.say(self.rank, None)


@dataclass(eq=False)
class Threads:
    """A start of a batch, as `harness.core.launch.Start` is one."""

    job: Job
    folder: Path
    states: tuple = ()
    heard: queue.Queue = field(default_factory=queue.Queue)
    ranks: list = field(default_factory=list)

    def follow(self, listen, limit_s):
        for one in self.ranks:
            one.start()
        speaking = len(self.ranks)
        while speaking:
            rank, event = self.heard.get(timeout=60)
            speaking -= event is None
            if event is not None:
                listen(rank, event)
        return {one.rank: one.ending for one in self.ranks if one.ending}

    def kill(self):
        pass

    def tell(self, word):
        pass

    def await_ready(self, most_s):
        pass

    def close(self, keep):
        pass


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The records by case of trials whose ranks run in step, what was told of them, and the sizes of their starts."""
    device = pytest.importorskip("harness.studies.validate.device")
    starts, told, folder = [], [], tmp_path_factory.mktemp("ranks")

    def launch(job, plan, batch, scratch, environ):
        meeting, trials = Meeting(4), job.attempt.trials
        threads = Threads(job, folder)
        say = lambda rank, event: threads.heard.put((rank, event))  # noqa: E731
        threads.ranks = [Rank(rank, plan.settings, batch, trials, meeting, say) for rank in range(4)]
        starts.append((batch.layout, len(trials)))
        return threads

    with pytest.MonkeyPatch.context() as patch:
        meet = lambda group, problem: threading.current_thread().meeting(group, problem)  # noqa: E731
        patch.setattr(device.agreement, "first_problem", meet)
        patch.setattr(device, "DeviceRank", RankInStep)
        watched = device.watched
        end = lambda group: lambda status: group.rank_of.ended.set()  # noqa: E731
        patch.setattr(device, "watched", lambda group: watched(group, 8.0, end(group)))
        patch.setattr(program.contract, "built", lambda backend, library: {})
        patch.setattr("harness.core.executor.launch.launch", launch)
        executor = _executor(folder, lambda trial, rows: told.append(trial.case))
        executor.execute()
    records = read(record_files(folder / "records")).of(program.Record)
    return SimpleNamespace(records={one.case: one for one in records}, told=told, starts=starts, all=records)


def _executor(folder, judged):
    for name in IN_ORDER:
        recorded(setup_of(name))  # here, since no two threads may simulate at a time
    digest = str(recorded(setup_of("wrong-id-wide", layout="3A1F")).identity["digest"])
    batches = (
        Batch(tuple(setup_of(name).trial for name in IN_ORDER), "cuda", "2A2F"),
        Batch((setup_of("wrong-id-wide", layout="3A1F").trial,), "cuda", "3A1F"),
    )
    tree = Tree("working", (("cuda", digest),), "t0")
    blocks = tuple(Block((one,)) for one in batches)
    plan = Plan("validate", "validate", settings(SMALL, "backends=[cuda]"), (tree,), (), "m0", None, blocks)
    return Executor(
        plans.save(folder / "plans", plan, "now", "command"),
        SimpleNamespace(of=lambda tree, swapped: folder),
        Sources((), ()),
        Workspace(folder),
        Limits(1, 60.0),
        told_by(judged),
        os.environ,
        lambda: datetime(2026, 1, 2, tzinfo=UTC),
        "command",
    )


@pytest.mark.parametrize("name", [*(name for name in IN_ORDER if name not in WRONG), "wrong-id-wide"])
def test_a_trial_is_exact_whatever_those_before_it_ended_with(ran, name):
    assert (ran.records[name].status, ran.records[name].reason) == ("ok", None)


def test_ranks_that_fail_in_step_go_on_and_a_start_ends_only_where_a_rank_is_lost(ran):
    assert [num for layout, num in ran.starts if layout == "2A2F"] == [11, 5, 3, 1]
    assert [num for layout, num in ran.starts if layout == "3A1F"] == [1]
    assert {one.case: one.attempt for one in ran.all if one.case in LOST} == dict(zip(LOST, (1, 2, 3), strict=True))


def test_every_trial_is_told_and_recorded_once_as_it_comes(ran):
    assert ran.told == [*IN_ORDER, "wrong-id-wide"]
    assert len(ran.all) == len(ran.told)


def failed(ran, name):
    assert ran.records[name].status == "failed"
    return ran.records[name].reason


def test_a_rank_that_fails_is_named_and_its_peers_are_not(ran):
    assert failed(ran, "bucket-cycle").startswith("rank 1: MismatchError: collected row")
    assert failed(ran, "delayed-replies") == "rank 1: ZeroDivisionError: of the harness itself"


def test_a_buffer_that_no_rank_can_make_fails_on_all(ran):
    assert failed(ran, "delayed-source").count("MismatchError: construction") == 4


def test_a_rank_that_dies_is_named_with_its_ending(ran):
    assert failed(ran, "skewed-routes") == "rank 1: exit code 9"


def test_a_rank_that_hangs_says_in_what(ran):
    reason = failed(ran, "inactive-source")
    assert reason.startswith("rank 1: still in ")
    assert "after 8 s" in reason


def test_a_gpu_that_cannot_go_on_fails_its_own_trial_alone(ran):
    assert failed(ran, "control all").startswith("rank 1: LostRankError: giving back: DeviceError")
    assert ran.records["one-small-source"].status == "ok"
