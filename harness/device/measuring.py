"""The cells of a job on GPUs: the worker starts the ranks and makes records of what they say."""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from afdep.layout import Layout
from harness import colocation, events, mps, session, turns
from harness.device import launch
from harness.device.words import CELL, FAILED, LOADED, READY, VOID
from harness.errors import MpsError, RankError
from harness.plan import Cell
from harness.plausibility import impossible
from harness.recording import latency_us
from harness.records import Record
from harness.session import Session

_GRACE = 2
"""Waits on the device that may follow one another on a rank whose peer is gone."""


def measure(job: Session) -> None:
    """Fill the job's records.

    Raises:
        RankError: a rank ended badly; its reason and those of its peers.
    """
    layout = Layout.parse(job.row.layout)
    reason = session.void_trace(job)
    if reason:
        _void(job, reason)
        return
    gathering = Gathering(job, layout)
    placement = colocation.planned(layout, job.plan.backend.ranks_per_gpu)
    try:
        with mps.shares(placement, os.environ) as shares:
            gathering.tell(f"starts {layout.num_ranks} ranks on GPUs {placement.in_words()}")
            endings = launch.run(_start(job, shares), gathering.hear)
    except MpsError as error:
        _void(job, f"needs MPS: {error.reason}")
        return
    if gathering.void:
        _void(job, gathering.void)
    elif endings or job.unfinished:
        silent = dict.fromkeys(range(layout.num_ranks), "left without its cells and without a word")
        raise RankError((silent if not endings else {}) | endings | gathering.failures)


def _void(job: Session, reason: str) -> None:
    """Nothing of the process counts that is not recorded yet."""
    job.records += job.seat.void(job.unfinished, reason, **job.observed)
    events.say(events.STAGE, text=f"void: {reason}")


def _start(job: Session, shares: Sequence[Mapping[str, str]]) -> launch.Start:
    """Ranks that start below this process's own folder and inherit from its environment."""
    backend = job.plan.backend
    assert backend.device is not None
    job_path, grace_s = Path(sys.argv[1]).resolve(), _GRACE * float(backend.device.wait_timeout_s)
    return launch.Start(job_path, job.slot, shares, grace_s, Path.cwd(), os.environ)


@dataclass
class Gathering:
    """What the ranks of a process have said so far; a cell that all of them measured becomes records at once.

    Args:
        job: whose records are filled.
        layout: of its row.
        ready: ranks that have imported and wait for their turn.
        loaded: by rank, what it loaded.
        measured: by cell and rank.
        failures: by rank, the reason that it gave itself.
        void: why nothing of this process counts, or None.
    """

    job: Session
    layout: Layout
    ready: set[int] = field(default_factory=set)
    loaded: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    measured: dict[Cell, dict[int, Mapping[str, Any]]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    void: str | None = None
    _began: float = field(default_factory=time.monotonic)

    def tell(self, text: str) -> None:
        """Say how far the ranks have come, and when."""
        events.say(events.STAGE, text=f"{text}, after {time.monotonic() - self._began:.1f} s of its own")

    def hear(self, rank: int, event: Mapping[str, Any]) -> None:
        """Take in what a rank said."""
        kind = event["event"]
        if kind == READY:
            self.ready.add(rank)
            if len(self.ready) == self.layout.num_ranks:
                self.job.turns.say(turns.READY)
                self.tell("all ranks have imported")
        elif kind == VOID:
            self.void = self.void or str(event["reason"])
        elif kind == FAILED:
            self.failures[rank] = str(event["reason"])
        elif kind == LOADED:
            self.loaded[rank] = event
            if len(self.loaded) == self.layout.num_ranks:
                self.tell("all ranks are open")
        elif kind == CELL:
            self._take(Cell(event["tokens"], event["bucket"]), rank, event["measured"])

    def _take(self, cell: Cell, rank: int, measured: Mapping[str, Any]) -> None:
        of_cell = self.measured.setdefault(cell, {})
        of_cell[rank] = measured
        if len(of_cell) < self.layout.num_ranks:
            return
        self.void = self.void or self._unlike()
        if self.void is None:
            records = self._records(cell, of_cell)
            self.job.records += records
            events.say(events.CELL, tokens=cell.tokens, latency_us=latency_us(records))

    def _unlike(self) -> str | None:
        """Why the ranks do not run one thing."""
        names = ("loaded_digest", "loaded_protocol", "loaded_switches")
        for name in names:
            values = {rank: one["observed"][name] for rank, one in sorted(self.loaded.items())}
            if len(set(values.values())) > 1:
                return f"{name}: expected one on all ranks, received {values}"
        return None

    def _records(self, cell: Cell, measured: Mapping[int, Mapping[str, Any]]) -> list[Record]:
        job = self.job
        roles = {rank: str(self.loaded[rank]["role"]) for rank in measured}
        samples = {rank: one["samples_us"] for rank, one in measured.items()}
        found = job.seat.measured(cell, samples, roles, proofs_passed=job.plan.backend.proof_exchanges)
        records = [replace(one, **self._observed(int(one.rank or 0), measured)) for one in found]
        assert job.plan.backend.device is not None
        reason = impossible(job.plan.backend.device.floor, job.row, job.loads(cell, 1), latency_us(records))
        return job.seat.voided(records, reason) if reason else records

    def _observed(self, rank: int, measured: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
        """What a rank saw of itself, as record fields."""
        loaded, own = self.loaded[rank], measured[rank]
        facts = {**loaded["facts"], "exchanges": own["exchanges"], "calls": own["calls"]}
        return {
            **loaded["observed"],
            "host_us": float(own["host_us"]),
            "host_calls": None if own["calls"] is None else float(sum(own["calls"].values())),
            "observed": json.dumps(facts, sort_keys=True),
        }
