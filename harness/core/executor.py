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
from harness.core.launch import Launched
from harness.core.ledger import Ledger, Place
from harness.core.plan import PlanFile
from harness.core.trees import Slots
from harness.records.envelope import OK, Envelope
from harness.study import Batch, VoidError

MOST_TO_START_S = 60.0
"""How long processes may take to start before those ahead of them measure without waiting for them."""


@dataclass(frozen=True)
class Places:
    """Where a run reads and writes.

    Args:
        records: folder of the plan's record files.
        journals: folder of its journals and claims.
        scratch: parent of the folders that processes start in.
        trace: file of recorded expert ids, or None.
    """

    records: Path
    journals: Path
    scratch: Path
    trace: Path | None = None


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


@dataclass(frozen=True)
class Failure:
    """A batch whose processes ended badly: why, and the folder with all that they said on standard error."""

    batch: Batch
    reason: str
    folder: Path | None


@dataclass
class Executor:
    """One run of one plan.

    Args:
        file: the plan.
        slots: its trees, in place.
        sources: Python files that a process may load from them.
        places: where it reads and writes.
        limits: of the run.
        listen: told how far a batch has come.
        judged: told of every trial and its rows.
        environ: where allowed variables are taken from.
        now: the time of day in UTC.
        command: as it was typed.
        failures: batches that ended badly.
    """

    file: PlanFile
    slots: Slots
    sources: Sources
    places: Places
    limits: Limits
    listen: Callable[[Batch, str], None]
    judged: Callable[[Any, Sequence[Envelope]], None]
    environ: Mapping[str, str]
    now: Callable[[], datetime]
    command: str
    failures: list[Failure] = field(default_factory=list)
    run_name: str = field(default_factory=lambda: f"r{secrets.token_hex(4)}")
    _alive: set[Launched] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: str | None = None

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.file, self.places.records, self.now, self.judged)

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
            for told in journal.left_behind(self.places.journals):
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
        path = self.places.journals / f"{number}-{block:04d}.claim"
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = claims.enter_context(path.open("w"))
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            return False
        return True

    def _run(self, places: Sequence[Place]) -> None:
        try:
            for swapped, group in itertools.groupby(places, key=lambda one: one.batch.swapped):
                own = list(group)
                with self._swapped(swapped):
                    run = self._together if all(one.batch.backend == "sim" for one in own) else self._in_turn
                    run(own)
        except BaseException as error:
            self.stop(f"interrupted by {getattr(error, 'name', None) or type(error).__name__}")
            raise

    @contextmanager
    def _swapped(self, swapped: bool) -> Iterator[None]:
        """The trees change places for the block."""
        if swapped:
            self.slots.swap()
        try:
            yield
        finally:
            if swapped:
                self.slots.swap()

    def _together(self, places: Sequence[Place]) -> None:
        """Several batches at a time: what one takes does not depend on the others."""
        with ThreadPoolExecutor(self.limits.jobs) as pool:
            futures = [pool.submit(self._to_the_end, one, None) for one in places]
            try:
                for future in futures:
                    future.result()
            except BaseException as error:
                pool.shutdown(wait=False, cancel_futures=True)
                self.stop(f"interrupted by {getattr(error, 'name', None) or type(error).__name__}")
                raise

    def _in_turn(self, places: Sequence[Place]) -> None:
        """One at a time; each starts while the one before sets up, and waits."""
        ahead: Launched | None = None
        try:
            for one, following in itertools.zip_longest(places, places[1:]):
                current, ahead = ahead or self._launch(one), None
                if current is not None:
                    current.go()
                if current is not None and following is not None:
                    ahead = self._launch(following)
                    if ahead is not None:
                        ahead.await_ready(MOST_TO_START_S)
                self._to_the_end(one, current)
        finally:
            if ahead is not None:
                ahead.close(keep=False)

    def _to_the_end(self, place: Place, launched: Launched | None) -> None:
        """Run a batch; where trials count by themselves, again as long as a start brings some of what is left."""
        while not self._is_over():
            before = len(self.ledger.wanted(place, self.run_name))
            launched = launched or self._launch(place)
            if launched is not None:
                self._finish(place.batch, launched)
            launched = None
            if self.ledger.is_pair(place) or len(self.ledger.wanted(place, self.run_name)) in (0, before):
                return

    def _is_over(self) -> bool:
        return self._stopped is not None or time.monotonic() > self.limits.until

    def _launch(self, place: Place) -> Launched | None:
        """Start a batch; None where there is no place for it on this machine, once that is recorded."""
        batch, attempt = place.batch, self._attempt(place)
        slot = self.slots.of(batch.tree, batch.swapped)
        request = launch.Request(self.file, attempt, batch, slot, self.sources, self.places.scratch, self.environ)
        try:
            launched = launch.launch(request, self.places.trace)
        except VoidError as void:
            self.ledger.record(Told(attempt, void=str(void), sealed=True))
            return None
        with self._lock:
            self._alive.add(launched)
        return launched

    def _attempt(self, place: Place) -> Attempt:
        wanted, created = tuple(self.ledger.wanted(place, self.run_name)), self.now().isoformat(timespec="seconds")
        told = (wanted, 1 + self.ledger.attempts(place), self.run_name, self.command, created)
        return Attempt(place.round, place.block, place.index, *told)

    def _finish(self, batch: Batch, launched: Launched) -> None:
        """Follow a batch to its end and record what came of it."""
        book, limit_s = Journal(self.places.journals, launched.attempt), batch.limit_s or self.limits.timeout_s

        def hear(rank: int, event: Mapping[str, Any]) -> None:
            self._hear(batch, book, rank, event)

        launched.go()
        self.listen(batch, f"measures, for {limit_s:g} s at the most")
        launched.measure()
        started = time.monotonic()
        try:
            endings = launched.follow(hear, limit_s)
        finally:
            with self._lock:
                self._alive.discard(launched)
        told = book.seal(endings, round(time.monotonic() - started, 3), launched.states())
        rows = self.ledger.record(told, self._stopped, launched.folder)
        book.remove()
        if endings and self._stopped is None:
            reason = next((str(row.reason) for row in rows if row.status != OK), "; ".join(endings.values()))
            self.failures.append(Failure(batch, reason, launched.folder))
        launched.close(keep=bool(endings) and self._stopped is None)

    def _hear(self, batch: Batch, book: Journal, rank: int, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "said":
            book.add(journal.SAID, rank=rank, trial=event["trial"], facts=event["facts"])
            self.ledger.show(book.told, int(event["trial"]))
        elif kind == "opened":
            book.add(journal.OPENED, rank=rank, facts=event["facts"])
        elif kind in (journal.VOID, journal.FAILED):
            book.add(kind, rank=rank, reason=event["reason"])
        elif kind == "ended" and event["outside"]:
            book.add(journal.SPOILED, reason=f"loaded {', '.join(event['outside'])}, which the plan lacks")
        elif kind == "stage":
            self.listen(batch, str(event["text"]))
