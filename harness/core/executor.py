"""Runs what a plan lacks on this machine: rounds of blocks, each batch in fresh processes.

What counts is not run again. A block is claimed before it runs, so that two runs of one plan share its work; a run that
was cut short leaves journals, and the next one makes records of them first. Imports no Hydra.
"""

import fcntl
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.core import journal, launch
from harness.core.identity import Sources
from harness.core.journal import Attempt, Journal, Told
from harness.core.launch import Start
from harness.core.ledger import Ledger, Place, Progress
from harness.core.plan import PlanFile, Workspace
from harness.core.trees import Slots
from harness.core.worker import GO, MEASURE, Job
from harness.records.envelope import FAILED, OK, VOID
from harness.study import Batch, VoidError

MOST_TO_START_S = 60.0
"""How long processes may take to start before those ahead of them measure without waiting for them."""


@dataclass(frozen=True)
class Limits:
    """How much a run may take.

    Args:
        jobs: batches at a time, where what they take does not depend on each other; else one runs at a time.
        timeout_s: of a batch that has no limit of its own.
        until: on the clock of `time.monotonic`, when no batch is started any more.
    """

    jobs: int
    timeout_s: float
    until: float = float("inf")


@dataclass
class Executor:
    """One run of one plan.

    Args:
        file: the plan.
        slots: its trees, in place.
        sources: Python files that a process may load from them.
        workspace: where it reads and writes.
        limits: of the run.
        progress: told how far a batch has come, and of every trial and its rows.
        environ: where allowed variables are taken from.
        now: the time of day in UTC.
        command: as it was typed.
        trace: file of recorded expert ids, or None.
        failures: why batches ended badly, by the folder with all that their processes said on standard error.
    """

    file: PlanFile
    slots: Slots
    sources: Sources
    workspace: Workspace
    limits: Limits
    progress: Progress
    environ: Mapping[str, str]
    now: Callable[[], datetime]
    command: str
    trace: Path | None = None
    failures: dict[Path, str] = field(default_factory=dict)
    run_name: str = field(default_factory=lambda: f"r{secrets.token_hex(4)}")
    _alive: set[Start] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: str | None = None

    def __post_init__(self) -> None:
        self.journals = self.workspace.journals(self.file.plan_hash)
        self.ledger = Ledger(self.file, self.workspace.records(self.file.plan_hash), self.now, self.progress)
        self.progress.total = self.num_missing()

    def execute(self) -> None:
        """Run every round, up to the one that has no blocks."""
        self._take_over()
        if (reason := self.file.plan.shared_identity()) is not None:
            for place in self.ledger.missing(0):
                self.ledger.record(Told(self._attempt(place), void=reason, sealed=True))
            return
        for number in itertools.count():
            if number == len(self.ledger.rounds):
                blocks = self.ledger.program.blocks(self.file.plan.settings, self.ledger.rows)
                if not blocks or self._is_over():
                    return
                self.ledger.rounds.append(self.file.add_round(number, blocks))
            self._run_round(number)

    def num_missing(self) -> int:
        """Trials of the rounds so far that do not count."""
        places = (place for number in range(len(self.ledger.rounds)) for place in self.ledger.missing(number))
        return sum(len(self.ledger.wanted(place)) for place in places)

    def stop(self, why: str) -> None:
        """End every process; what they were at is void, with this reason."""
        self._stopped = self._stopped or why
        with self._lock:
            left = list(self._alive)
        for one in left:
            one.kill()

    def _take_over(self) -> None:
        """Make records of what dead runs have left."""
        with self.file.locked():
            self.ledger.read()
            for told in journal.left_behind(self.journals):
                self.ledger.record(told, None if told.sealed else "interrupted: its run ended without a word")

    def _run_round(self, number: int) -> None:
        """Run what nobody else has claimed, and then whatever others have left undone."""
        blocks = list(dict.fromkeys(place.block for place in self.ledger.missing(number)))
        for wait in (False, True):
            with ExitStack() as claims:
                mine = [block for block in blocks if self._claim(claims, number, block, wait)]
                if wait and mine:
                    self.ledger.read()
                self._run([place for place in self.ledger.missing(number) if place.block in mine])
            blocks = [block for block in blocks if block not in mine]

    def _claim(self, claims: ExitStack, number: int, block: int, wait: bool) -> bool:
        """Whether a block is this run's until the claims are given back."""
        path = self.journals / f"{number}-{block:04d}.claim"
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = claims.enter_context(path.open("w"))
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            return False
        return True

    def _run(self, places: Sequence[Place]) -> None:
        """Run batches in order; the trees change places for those that want them swapped."""
        kinds = itertools.groupby(places, key=lambda one: (one.batch.swapped, one.batch.backend))
        for (swapped, backend), group in kinds:
            with ExitStack() as behind, self._ended_by_errors():
                if swapped:
                    self.slots.swap()
                    behind.callback(self.slots.swap)
                (self._together if backend == "sim" else self._in_turn)(list(group))

    @contextmanager
    def _ended_by_errors(self) -> Iterator[None]:
        """Whatever ends the block early ends every process first, and is why what they were at is void."""
        try:
            yield
        except BaseException as error:
            self.stop(f"interrupted by {getattr(error, 'name', None) or type(error).__name__}")
            raise

    def _together(self, places: Sequence[Place]) -> None:
        """Several batches at a time: what one takes does not depend on the others."""
        with ThreadPoolExecutor(self.limits.jobs) as pool, self._ended_by_errors():  # the pool waits for its threads
            list(pool.map(self._to_the_end, places))

    def _in_turn(self, places: Sequence[Place]) -> None:
        """One at a time; each starts while the one before sets up, and waits."""
        ahead = self._launch(places[0])
        try:
            for one, following in itertools.zip_longest(places, places[1:]):
                current, ahead = ahead, None
                if current is not None:
                    current.tell(GO)
                if following is not None:
                    ahead = self._launch(following)
                if current is not None:
                    if ahead is not None:
                        ahead.await_ready(MOST_TO_START_S)
                    self._to_the_end(one, current)
        finally:
            if ahead is not None:
                ahead.close(keep=False)

    def _to_the_end(self, place: Place, start: Start | None = None) -> None:
        """Run a batch; where trials count by themselves, again as long as a start brings some of what is left."""
        while (start := start or self._launch(place)) is not None:
            before = len(self.ledger.wanted(place, self.run_name))
            self._finish(place.batch, start)
            start = None
            if self.ledger.is_pair(place) or len(self.ledger.wanted(place, self.run_name)) in (0, before):
                return

    def _is_over(self) -> bool:
        return self._stopped is not None or time.monotonic() > self.limits.until

    def _launch(self, place: Place) -> Start | None:
        """Start a batch; None where the run is over, or this machine has no place for it, once that is recorded."""
        if self._is_over():
            return None
        batch = place.batch
        job = Job(
            plan=str(self.file.path.resolve()),
            attempt=self._attempt(place),
            slot=str(self.slots.of(batch.tree, batch.swapped)),
            sources=self.sources,
            trace=None if self.trace is None else str(self.trace.resolve()),
        )
        try:
            start = launch.launch(job, self.file.plan, batch, self.workspace.scratch, self.environ)
        except VoidError as void:
            self.ledger.record(Told(job.attempt, void=str(void), sealed=True))
            return None
        with self._lock:
            self._alive.add(start)
        return start

    def _attempt(self, place: Place) -> Attempt:
        wanted, number = tuple(self.ledger.wanted(place, self.run_name)), 1 + self.ledger.attempts(place)
        return Attempt(place.round, place.block, place.index, wanted, number, self.run_name, self.command)

    def _finish(self, batch: Batch, start: Start) -> None:
        """Follow a batch to its end and record what came of it."""
        book, limit_s = Journal(self.journals, start.job.attempt), batch.limit_s or self.limits.timeout_s

        def hear(rank: int, event: Mapping[str, Any]) -> None:
            book.add(rank, event)
            if event["event"] == journal.SAID:
                self.ledger.show(book.told, int(event["trial"]))

        start.tell(GO)
        self.progress.stage(batch, f"measures, for {limit_s:g} s at the most")
        start.tell(MEASURE)
        started = time.monotonic()
        try:
            endings = start.follow(hear, limit_s)
        finally:
            with self._lock:
                self._alive.discard(start)
        told = book.seal(endings, round(time.monotonic() - started, 3), start.states)
        rows = self.ledger.record(told, self._stopped, start.folder)
        book.remove()
        statuses = {row.status for row in rows}
        explained = statuses == {VOID} or (statuses == {OK} and getattr(self.ledger.program, "JUDGES_ENDINGS", False))
        failed = bool(endings) and self._stopped is None and not explained
        if failed:
            reasons = (str(row.reason) for row in rows if row.status == FAILED)
            self.failures[start.folder] = next(reasons, "; ".join(endings.values()))
        start.close(keep=failed)
