"""Runs the blocks of a plan on this machine: one fresh process per row, arm, pair and position.

What is recorded as ok is not run again. A process that dies becomes failed records with the reason, unless its own
records are complete: they decide, whatever ended it afterwards. Imports no Hydra.
"""

import itertools
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import events, process, records
from harness.screen_config import Launcher
from harness.job import Job
from harness.plan import PlanFile, Process
from harness.recording import Seat
from harness.trees import Slots, exclusive_directory
from harness.turns import GO, MEASURE, READY, Turns

_MOST_TO_START_S = 60.0
"""How long a process may take to start before the one ahead of it measures without waiting for it."""

Listener = Callable[[Process, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Places:
    """Where a run reads and writes.

    Args:
        plan: the plan file.
        records: folder of the plan's record files.
        scratch: parent of the folders that processes start in.
        trace: file of recorded expert ids, or None.
    """

    plan: Path
    records: Path
    scratch: Path
    trace: Path | None = None


@dataclass(frozen=True)
class Failure:
    """A process that ended badly: which, why, its record file, and all that it wrote on standard error."""

    process: Process
    reason: str
    record_file: str
    stderr: Path


@dataclass(frozen=True)
class Started:
    """A process that has started: its seat, its folder, and the worker."""

    seat: Seat
    folder: Path
    child: "subprocess.Popen[str]"

    @property
    def turns(self) -> Turns:
        return Turns(self.folder)

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr.txt"

    def await_ready(self, most_s: float) -> None:
        """Wait until it waits for its turn, has ended, or has taken so long."""
        end = time.monotonic() + most_s
        self.turns.wait(READY, lambda: self.child.poll() is not None or time.monotonic() > end)


@dataclass
class Executor:
    """One run of one plan.

    Args:
        plan_file: the plan.
        slots: its trees, in place.
        places: where it reads and writes.
        launcher: processes at a time, and their time limit.
        listen: called with every event of every process, from several threads.
        environ: where allowed variables are taken from.
        failures: processes whose cells are not all recorded as ok.
        late_endings: processes that ended badly after all their cells were recorded as ok; their records count.
    """

    plan_file: PlanFile
    slots: Slots
    places: Places
    launcher: Launcher
    listen: Listener
    environ: Mapping[str, str]
    failures: list[Failure] = field(default_factory=list)
    late_endings: list[Failure] = field(default_factory=list)
    _alive: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def remaining(self) -> list[Process]:
        """The plan minus the processes whose every cell is recorded as ok."""
        return [one for one in self.plan_file.plan.processes if not self._is_recorded(one)]

    def has_figures(self) -> bool:
        """Whether a cell of the plan is recorded as ok."""
        return any(one.status == "ok" for one in records.read(records.record_files(self.places.records)).records)

    def _is_recorded(self, one: Process) -> bool:
        plan = self.plan_file.plan
        done = {record.key for record in records.read(self._files(one)).records if record.status == "ok"}
        return {plan.cell_key(one, cell) for cell in plan.cells} <= done

    def _files(self, one: Process) -> list[Path]:
        key = self.plan_file.plan.process_key(one)
        return [path for path in records.record_files(self.places.records) if path.name.startswith(key)]

    def run(self, processes: Sequence[Process]) -> None:
        """Run these processes in plan order; between straight and swapped ones the trees change places."""
        swapped = False
        for wanted, group in itertools.groupby(processes, key=lambda one: one.swapped):
            if wanted != swapped:
                self.slots.swap()
                swapped = wanted
            self._run_group(list(group))

    def _run_group(self, group: Sequence[Process]) -> None:
        pool = ThreadPoolExecutor(self.launcher.jobs)
        try:
            if self.plan_file.plan.backend.deterministic:
                list(pool.map(self._run_one, group))
            else:
                self._run_in_turn(group)
        except BaseException:
            self._stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            self._kill_all()
            raise
        finally:
            pool.shutdown()

    def void_all(self, reason: str) -> None:
        """Record every process of the plan as void that has no record yet; nothing runs."""
        for one in self.plan_file.plan.processes:
            if self._attempt(one) == 1:
                records.write(self.places.records, self._seat(one).void(self.plan_file.plan.cells, reason))

    def _run_one(self, one: Process) -> None:
        if self._is_recorded(one):  # another run of this plan was faster
            return
        started = self._start(one)
        started.turns.say(GO)
        started.turns.say(MEASURE)
        self._finish(started)

    def _run_in_turn(self, group: Sequence[Process]) -> None:
        """One at a time; each starts while the one before sets up, and waits."""
        ahead: Started | None = None
        for one, following in itertools.zip_longest(group, group[1:]):
            current = ahead or self._start(one)
            self._tell(one, "may take its GPUs")
            current.turns.say(GO)
            ahead = self._start(following) if following else None
            if ahead is not None:
                ahead.await_ready(_MOST_TO_START_S)
            self._tell(one, f"may measure, for {self.launcher.timeout_s} s at the most")
            current.turns.say(MEASURE)
            self._finish(current)

    def _start(self, one: Process) -> "Started":
        seat = self._seat(one)
        folder = exclusive_directory(self.places.scratch, "process")
        (folder / "start").mkdir()
        self._job(one, seat.attempt, folder).save(folder / "job.json")
        with (folder / "stderr.txt").open("w", encoding="utf-8") as stderr:
            return Started(seat, folder, self._child(one, folder, stderr))

    def _finish(self, started: "Started") -> None:
        wrote, reason = self._watch(started)
        if self._stopping.is_set():  # ended by us: no failure, and resumed by the next run
            return
        if reason is None:
            shutil.rmtree(started.folder)
        else:
            self._judge(started.seat, wrote, reason, started.stderr)

    def _judge(self, seat: Seat, wrote: str | None, reason: str, stderr: Path) -> None:
        """A bad ending is a failure unless the records say otherwise."""
        complete = self._is_recorded(seat.process)
        if complete:
            wrote = self._files(seat.process)[-1].name
        elif wrote is None:
            wrote = records.write(self.places.records, seat.failed(self.plan_file.plan.cells, reason)).name
        self._tell(seat.process, f"{'warning' if complete else 'failed'}: {reason}")
        with self._lock:
            (self.late_endings if complete else self.failures).append(Failure(seat.process, reason, str(wrote), stderr))

    def _tell(self, one: Process, text: str) -> None:
        self.listen(one, {"event": events.STAGE, "text": text})

    def _job(self, one: Process, attempt: int, folder: Path) -> Job:
        return Job(
            plan=str(self.places.plan.resolve()),
            process=self.plan_file.plan.processes.index(one),
            slot=str(self._slot(one)),
            records=str(self.places.records.resolve()),
            attempt=attempt,
            host=0,
            trace=None if self.places.trace is None else str(self.places.trace),
            turns=str(folder.resolve()),
        )

    def _slot(self, one: Process) -> Path:
        return self.slots.path(self.plan_file.plan.slot_of(one)).resolve()

    def _seat(self, one: Process) -> Seat:
        return Seat(self.plan_file.plan, one, self._attempt(one), host=0)

    def _attempt(self, one: Process) -> int:
        return 1 + len(self._files(one))

    def _watch(self, started: "Started") -> tuple[str | None, str | None]:
        """Follow a process to its end.

        Returns:
            The record file it wrote itself, if any, and why it failed, or None if it did not.
        """
        timed_out = threading.Event()
        wrote: str | None = None
        with started.child as child:
            timer = threading.Timer(self.launcher.timeout_s, self._end_for_time, (child, timed_out))
            timer.start()
            for event in _events_of(child):
                wrote = event["file"] if event["event"] == events.WRITTEN else wrote
                self.listen(started.seat.process, event)
            returncode = child.wait()
            timer.cancel()
            with self._lock:
                del self._alive[child.pid]
        if returncode == 0 and wrote is not None:
            return wrote, None
        last, _ = process.last_words(started.stderr.read_text(encoding="utf-8", errors="replace"))
        limit = self.launcher.timeout_s if timed_out.is_set() else None
        return wrote, process.ending(returncode, limit, last)

    def _child(self, one: Process, folder: Path, stderr: Any) -> "subprocess.Popen[str]":
        child = subprocess.Popen(
            process.command("harness.worker", str(folder / "job.json")),
            cwd=folder / "start",
            env=process.environment(self._slot(one), self.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        with self._lock:
            self._alive[child.pid] = child
        return child

    def _end_for_time(self, child: subprocess.Popen[str], timed_out: threading.Event) -> None:
        timed_out.set()
        _kill(child)

    def _kill_all(self) -> None:
        with self._lock:
            left = list(self._alive.values())
        for child in left:
            _kill(child)


def _events_of(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert child.stdout is not None
    return (event for line in child.stdout if (event := events.hear(line)) is not None)


def _kill(child: subprocess.Popen[str]) -> None:
    """End a process with everything it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
