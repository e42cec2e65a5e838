"""What a plan has and what it lacks: its rows by trial, the judging of what batches said, and a line of each."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from afdep import Layout
from harness import study
from harness.core.journal import Told
from harness.core.plan import Plan, PlanFile
from harness.records import table
from harness.records.envelope import FAILED, OK, Envelope
from harness.records.errors import FieldError
from harness.study import Batch, Block, Ended

_FACTS = ("code_digest", "gpu_uuid", "torch", "compiler", "affinity")
"""What a rank says of itself that every row of it has."""

_QUIET = 200
"""From so many trials on, one in a hundredth has a line, beside each that failed and the first void of a reason."""


class Progress:
    """Counts trials.

    Args:
        plan: its program may say what a trial is (`label`), else its fields do, and what rows that are ok hold
            (`figure`).
        clock: seconds since any fixed moment.
        print_line: where lines go.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float], print_line: Callable[[str], None]):
        program: Any = study.program(plan.study)
        label, figure = getattr(program, "label", None), getattr(program, "figure", None)
        self._label: Callable[[Any], str] = (lambda trial: label(plan.settings, trial)) if label else _words
        self._figure: Callable[[Sequence[Envelope]], str] = figure or (lambda rows: OK)
        self._clock, self._print = clock, print_line
        self._began = clock()
        self._lock = threading.Lock()
        self.total, self.done = 0, 0
        self._reasons: set[str | None] = {None}

    def stage(self, batch: Batch, text: str) -> None:
        """How far a batch has come; of the simulator nobody waits for it."""
        if batch.backend == "cuda":
            with self._lock:
                name = self._label(batch.trials[0])
                more = f" and {len(batch.trials) - 1} more" if len(batch.trials) > 1 else ""
                self._print(f"  {name}{more}: {text}  ({self._clock() - self._began:.1f} s)")

    def judged(self, trial: Any, rows: Sequence[Envelope]) -> None:
        """What came of a trial: one row or more."""
        with self._lock:
            self.done += 1
            self.total = max(self.total, self.done)
            status, reason = rows[0].status, rows[0].reason
            notable = status == FAILED or reason not in self._reasons
            self._reasons.add(reason)
            if self.total < _QUIET or notable or self.done % (self.total // 100) == 0 or self.done == self.total:
                said = self._figure(rows) if status == OK else f"{status}: {reason}"
                count = f"[{self.done:{len(str(self.total))}d}/{self.total}]"
                self._print(f"{count} {self._label(trial)}: {said}  ({self._clock() - self._began:.1f} s)")


def _words(trial: Any) -> str:
    return " ".join(str(held) for held in vars(trial).values() if held is not None)


@dataclass(frozen=True)
class Place:
    """A batch where it stands in its plan."""

    round: int
    block: int
    index: int
    batch: Batch

    @property
    def pair(self) -> tuple[int, int]:
        return self.block, self.batch.pair


@dataclass
class Ledger:
    """The rows of a plan.

    Args:
        file: the plan.
        folder: of its record files.
        now: the time of day in UTC.
        progress: told of every trial and its rows as they are judged.
    """

    file: PlanFile
    folder: Path
    now: Callable[[], datetime]
    progress: Progress
    rounds: list[tuple[Block, ...]] = field(default_factory=list)
    _rows: dict[str, list[Envelope]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.program: Any = study.program(self.file.plan.study)
        self.rounds = list(self.file.rounds())
        self.read()

    def read(self) -> None:
        """Read every record file, those that other runs have written since included."""
        found: dict[str, list[Envelope]] = {}
        for row in table.read(table.record_files(self.folder)).of(self.program.Record):
            found.setdefault(row.key, []).append(row)
        self._rows = found

    @property
    def rows(self) -> list[Envelope]:
        """All rows."""
        return [row for rows in self._rows.values() for row in rows]

    def missing(self, number: int) -> list[Place]:
        """The batches of a round that do not count yet, in order; of a pair that is torn, both sides."""
        placed = [
            Place(number, at, index, batch)
            for at, block in enumerate(self.rounds[number])
            for index, batch in enumerate(block.batches)
        ]
        incomplete = [one for one in placed if self.left(one)]
        torn = self._torn(placed) | {one.pair for one in incomplete}
        return [one for one in placed if (one.pair in torn if self.is_pair(one) else one in incomplete)]

    def left(self, place: Place) -> list[int]:
        """Indices of the trials of a batch that do not count."""
        return [index for index, trial in enumerate(place.batch.trials) if not self._runs(place.batch, trial)]

    def wanted(self, place: Place, run: str = "") -> list[int]:
        """Indices of the trials that the next start of a batch runs: all where they count together, else those that do
        not count and that the run has not spoken of.
        """
        if self.is_pair(place):
            return list(range(len(place.batch.trials)))
        keys = [self.file.plan.trial_key(place.batch, trial) for trial in place.batch.trials]
        return [at for at in self.left(place) if not any(row.run == run for row in self._rows.get(keys[at], []))]

    def attempts(self, place: Place) -> int:
        """How many attempts at a batch are on record."""
        keys = [self.file.plan.trial_key(place.batch, trial) for trial in place.batch.trials]
        return max((row.attempt for key in keys for row in self._rows.get(key, [])), default=0)

    def is_pair(self, place: Place) -> bool:
        """Whether losses void the pair that the batch is a side of."""
        return self.rounds[place.round][place.block].on_loss == "void"

    def _torn(self, placed: Sequence[Place]) -> set[tuple[int, int]]:
        """Pairs whose sides come from different runs: machine and moment differ, so they are no pairs."""
        runs: dict[tuple[int, int], set[str]] = {}
        for one in filter(self.is_pair, placed):
            for trial in one.batch.trials:
                runs.setdefault(one.pair, set()).update(self._runs(one.batch, trial)[:1])
        return {pair for pair, names in runs.items() if len(names) > 1}

    def _runs(self, batch: Batch, trial: Any) -> list[str]:
        """The runs by which a trial counts, the latest attempt first."""
        rows = self._rows.get(self.file.plan.trial_key(batch, trial), [])
        final = getattr(self.program, "FINAL", (OK,))
        return [row.run for row in sorted(rows, key=lambda row: -row.attempt) if row.status in final]

    def record(self, told: Told, interrupted: str | None = None, files: Path | None = None) -> list[Envelope]:
        """Judge what a batch said and write it down.

        Args:
            told: its journal.
            interrupted: why its run did not come to an end, or None.
            files: folder of its processes.

        Returns:
            The rows.
        """
        attempt = told.attempt
        block = self.rounds[attempt.round][attempt.block]
        batch = block.batches[attempt.batch]
        rows: list[Envelope] = []
        for index, ended in _endings(told, block, num_processes(batch), interrupted, files):
            rows += self._judge(told, batch, index, ended)
        with self._lock:
            known = [(row.run, row.attempt) for row in self._rows.get(rows[0].key, [])] if rows else []
            if rows and (attempt.run, attempt.number) not in known:  # else its run died behind its record
                table.write(self.folder, attempt.stem, rows)
                for row in rows:
                    self._rows.setdefault(row.key, []).append(row)
        return rows

    def show(self, told: Told, index: int) -> None:
        """Tell what came of a trial, once every rank has spoken of it; nothing is written yet."""
        batch = self.rounds[told.attempt.round][told.attempt.block].batches[told.attempt.batch]
        said, num_ranks = told.said[index], num_processes(batch)
        if len(said) == num_ranks and not told.void:
            self._judge(told, batch, index, Ended(said, told.opened, num_ranks))

    def _judge(self, told: Told, batch: Batch, index: int, ended: Ended) -> list[Envelope]:
        """The rows of a trial; where one is none that may be written, what was said is void for that reason."""
        trial = batch.trials[index]
        try:
            rows = self._checked(told, batch, trial, ended)
        except FieldError as refused:
            rows = self._checked(told, batch, trial, replace(ended, said={}, void=refused.problem))
        if rows and index not in told.shown:
            told.shown.add(index)
            self.progress.judged(trial, rows)
        return rows

    def _checked(self, told: Told, batch: Batch, trial: Any, ended: Ended) -> list[Envelope]:
        found = self.program.judge(self.file.plan, batch, trial, ended)
        return [table.checked(self._stamped(one, told, batch, trial)) for one in found]

    def _stamped(self, row: Envelope, told: Told, batch: Batch, trial: Any) -> Envelope:
        """The row with all that plan and run know of it."""
        plan, attempt, tree = self.file.plan, told.attempt, self.file.plan.trees[batch.tree]
        process = (getattr(row, "rank", None) or 0) if num_processes(batch) > 1 else 0
        facts = told.opened.get(process, {})
        told_by_rank: dict[str, Any] = {name: facts.get(name) for name in _FACTS}
        return replace(
            row,
            **told_by_rank,
            **_clocks(told, facts.get("gpu")),
            round=attempt.round,
            block=attempt.block,
            batch=attempt.batch,
            run=attempt.run,
            command=attempt.command,
            study=plan.study,
            plan_hash=self.file.plan_hash,
            key=plan.trial_key(batch, trial),
            attempt=attempt.number,
            created=self.now().isoformat(timespec="seconds"),
            backend=batch.backend,
            machine=str(facts.get("device") or row.machine),
            native_digest=row.native_digest or tree.native_digest(batch.backend),
            library_digest=tree.library_digest,
            measuring_digest=plan.measuring_digest,
            machine_digest=plan.machine_digest if batch.backend == "sim" else None,
            seconds=told.seconds if told.sealed else None,
        )


def num_processes(batch: Batch) -> int:
    """How many processes speak of every trial of a batch."""
    return 1 if batch.backend == "sim" or batch.layout is None else Layout.parse(batch.layout).num_ranks


def _endings(
    told: Told, block: Block, num_ranks: int, interrupted: str | None, files: Path | None
) -> Iterator[tuple[int, Ended]]:
    """What there is of each trial whose turn has come: all of them where they count together.

    Where each counts by itself, the first that not every rank has spoken of is the one that its processes ended in,
    or were interrupted in.
    """
    together, endings = block.on_loss == "void", {**told.endings, **told.failures}
    for index in told.attempt.trials:
        said = {} if told.spoiled or (interrupted and together) else told.said.get(index, {})
        whole = len(said) == num_ranks
        void = told.spoiled or told.void or interrupted
        yield index, Ended(said, told.opened, num_ranks, endings, void, files)
        if not (together or whole or told.void or told.spoiled):
            return


def _clocks(told: Told, gpu: int | None) -> Mapping[str, Any]:
    """What the GPU of a rank said before and after: its driver, its clock and why it ran slower."""
    own = [one for one in told.states if gpu is not None and one.get("gpu") == gpu]
    if not own:
        return {}
    reasons = sorted({str(one["throttle"]) for one in own})
    clocks = tuple(float(one["sm_mhz"]) for one in own)
    return {"driver": own[0].get("driver"), "sm_mhz": clocks, "throttle": ", ".join(reasons)}
