"""Where a batch runs on this machine: its folder, its GPUs and shares of them, its library, and then its processes."""

import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from afdep import Layout
from harness.core import libraries
from harness.core.identity import Sources
from harness.core.job import Job
from harness.core.journal import Attempt
from harness.core.plan import PlanFile
from harness.core.start import GRACE_S, Listen, Seat, Start
from harness.core.trees import exclusive_directory
from harness.errors import MpsError, PlacementError
from harness.machine import gpus, keeper, mps
from harness.machine.placement import Placement, place, planned
from harness.study import Batch, VoidError

_TOOLS = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
"""Where a tool of CUDA may be that is not on the PATH."""


@dataclass(frozen=True)
class Request:
    """A batch that is to be started.

    Args:
        file: its plan.
        attempt: which batch, and which of its trials.
        batch: the batch.
        slot: the tree that it runs.
        sources: Python files that its processes may load.
        scratch: parent of its folder.
        environ: where allowed variables are taken from.
    """

    file: PlanFile
    attempt: Attempt
    batch: Batch
    slot: Path
    sources: Sources
    scratch: Path
    environ: Mapping[str, str]


class Launched:
    """The processes of a batch, with what they hold of this machine."""

    def __init__(self, attempt: Attempt, folder: Path, start: Start, held: ExitStack, environ: Mapping[str, str]):
        self.attempt, self.folder = attempt, folder
        self._start, self._held, self._environ = start, held, environ
        self._states: list[dict[str, Any]] = []
        self._on_gpus = False
        self.await_ready, self.measure, self.kill = start.await_ready, start.measure, start.kill

    def go(self) -> None:
        """Its processes may take their GPUs."""
        self._start.go()

    def watch_gpus(self) -> None:
        """Note the state of the GPUs now, and once more at the end."""
        self._on_gpus, self._states = True, gpus.states(self._environ)

    def follow(self, listen: Listen, limit_s: float) -> dict[int, str]:
        """As `Start.follow`."""
        try:
            return self._start.follow(listen, limit_s)
        finally:
            if self._on_gpus:
                self._states += gpus.states(self._environ)
            self._held.close()

    def states(self) -> list[dict[str, Any]]:
        """What the GPUs said of themselves, before and after."""
        return self._states

    def close(self, keep: bool) -> None:
        """End what is left; its folder goes unless somebody is to look into it."""
        self.kill()
        self._held.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def launch(request: Request, trace: Path | None) -> Launched:
    """Start a batch.

    Raises:
        VoidError: this machine has no place for it.
    """
    batch, held = request.batch, ExitStack()
    on_gpus = batch.backend == "cuda" and batch.layout is not None
    placement = _placement(batch) if on_gpus else None
    tool = _tool(batch, request.environ)
    try:
        shares = held.enter_context(mps.shares(placement, request.environ)) if placement else [{}]
    except MpsError as error:
        held.close()
        raise VoidError(f"needs MPS: {error.reason}") from error
    folder = exclusive_directory(request.scratch, "batch").resolve()
    try:
        seats = [Seat(rank if placement else None, share, tool) for rank, share in enumerate(shares)]
        start = Start(_job(request, folder, placement, trace), request.slot, seats, request.environ, _grace_s(request))
    except BaseException:
        held.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if batch.tool:  # a tool may not pass on the end of its input
        keeping = held.enter_context(keeper.kept())
        for pid in start.pids:
            keeping.group(pid)
    launched = Launched(request.attempt, folder, start, held, request.environ)
    if on_gpus:
        launched.watch_gpus()
    return launched


def _job(request: Request, folder: Path, placement: Placement | None, trace: Path | None) -> Path:
    attempt, batch = request.attempt, request.batch
    built = batch.built if batch.backend == "cuda" else ()
    return Job(
        plan=str(request.file.path.resolve()),
        round=attempt.round,
        block=attempt.block,
        batch=attempt.batch,
        trials=attempt.trials,
        slot=str(request.slot),
        sources=request.sources,
        libraries=tuple(libraries.edited(request.slot, edits) for edits in built),
        gpus=tuple(seat.gpu for seat in placement.seats) if placement else (),
        folder=str(folder),
        trace=None if trace is None else str(trace.resolve()),
        room=_room(placement),
    ).save()


def _tool(batch: Batch, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The tool of a batch by its place on this machine.

    Raises:
        VoidError: it is not here.
    """
    if not batch.tool:
        return ()
    if (found := place_of(batch.tool[0], environ)) is None:
        raise VoidError(f"needs {batch.tool[0]}, which is not on the PATH")
    return (found, *batch.tool[1:])


def place_of(tool: str, environ: Mapping[str, str]) -> str | None:
    """Where a tool is on this machine, or None."""
    return shutil.which(tool, path=os.pathsep.join((environ.get("PATH", ""), *_TOOLS)))


def _grace_s(request: Request) -> float:
    """How long ranks may go on when one is gone: their waits time out and name it."""
    return float(getattr(request.file.plan.settings, "grace_s", GRACE_S))


@cache
def _gpus_here() -> gpus.Gpus | str:
    return gpus.found()


def _placement(batch: Batch) -> Placement:
    """The GPU of every rank.

    Raises:
        VoidError: no GPUs, or too few of them.
    """
    here = _gpus_here()
    if isinstance(here, str):
        raise VoidError(here)
    layout = Layout.parse(batch.layout)
    try:
        placement = place(layout, here.count) if batch.ranks_per_gpu is None else planned(layout, batch.ranks_per_gpu)
    except PlacementError as error:
        raise VoidError(error.problem) from error
    needed = 1 + max(seat.gpu for seat in placement.seats)
    if here.count < needed:
        raise VoidError(f"{layout} as placed needs {needed} GPUs, this machine shows {here.count}")
    return placement


def _room(placement: Placement | None) -> int | None:
    """SMs that each rank's main kernels have room on where ranks share a GPU; None where each has its own."""
    here = _gpus_here()
    return None if placement is None or not placement.is_shared or isinstance(here, str) else placement.room(here.sms)
