"""One start of a batch: its place on this machine, its library, and its processes, followed together to their end."""

import os
import queue
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from afdep import Layout
from harness.core import process, trees
from harness.core.journal import READY, VOID
from harness.core.plan import Plan
from harness.core.worker import Job
from harness.errors import PlacementError
from harness.machine import gpus, keeper, mps
from harness.study import Batch, VoidError

GRACE_S = 5.0
"""How long ranks may go on when one has ended, in good order or not: their waits time out in that time and name it."""
_TICK_S = 0.1
_TOOLS = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
"""Where a tool of CUDA may be that is not on the PATH."""

Listen = Callable[[int, Mapping[str, Any]], None]


class Start:
    """The processes of a batch, from their start to their end, with what they hold of this machine.

    Args:
        job: what they are told; its folder takes a folder and a file for each process.
        command: that each is started by.
        environs: one a process, by rank where there are several.
        grace_s: as GRACE_S, where waits of the ranks may take longer.
        held: is given back when all have ended.

    Attributes:
        states: of the GPUs before and after, where ranks have some.
    """

    def __init__(
        self, job: Job, command: Sequence[str], environs: Sequence[Mapping[str, str]], grace_s: float, held: ExitStack
    ):
        self.job, self.folder, self._grace_s, self._held = job, Path(job.folder), grace_s, held
        self._heard: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self._word, self._ready = secrets.token_hex(8), threading.Semaphore(0)
        self.states: list[dict[str, Any]] = []
        self.children: list[subprocess.Popen[str]] = []
        try:
            for index, environ in enumerate(environs):
                self.children.append(self._begin(index, command, environ))
        except BaseException:
            self.kill()
            raise

    def await_ready(self, most_s: float) -> None:
        """Wait until every process waits for its turn or has ended, or it has taken so long."""
        end = time.monotonic() + most_s
        for _ in self.children:
            self._ready.acquire(timeout=max(0.0, end - time.monotonic()))

    def tell(self, word: str) -> None:
        """Say a word to every process: it may take its GPU, or measure."""
        for child in self.children:
            assert child.stdin is not None
            with suppress(BrokenPipeError, ValueError):
                child.stdin.write(f"{word}\n")
                child.stdin.flush()

    def follow(self, listen: Listen, limit_s: float) -> dict[int, str]:
        """Pass on what each says until all have ended; whoever is left is ended.

        Returns:
            By index why a process ended badly.
        """
        limit, deadline = time.monotonic() + limit_s, float("inf")
        speaking = set(range(len(self.children)))
        try:
            while speaking and time.monotonic() < min(limit, deadline):
                with suppress(queue.Empty):
                    index, event = self._heard.get(timeout=_TICK_S)
                    if event is not None:
                        listen(index, event)
                    else:
                        speaking.discard(index)
                        deadline = min(deadline, time.monotonic() + self._grace_s)
            timed_out = time.monotonic() >= limit
            for index in set(range(len(self.children))) - speaking:
                with suppress(subprocess.TimeoutExpired):  # it has said its last word, and is on its way out
                    self.children[index].wait(self._grace_s)
        finally:
            self.kill()
            self._held.close()
        return self._endings(listen, speaking, limit_s, timed_out)

    def kill(self) -> None:
        """End every process with everything it has started."""
        for child in self.children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    def close(self, keep: bool) -> None:
        """End what is left; its folder goes unless somebody is to look into it."""
        self.kill()
        self._held.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _endings(self, listen: Listen, speaking: set[int], limit_s: float, timed_out: bool) -> dict[int, str]:
        """Why processes ended badly, once all have; of one that somebody else ended it is said that it is void."""
        endings = {}
        for index, child in enumerate(self.children):
            code = child.wait()
            if index in speaking and not timed_out:
                endings[index] = f"ended: another rank was gone for {self._grace_s:.0f} s"
            elif -code in process.SIGNALS:
                reason = f"interrupted: somebody ended the process by {process.signal_name(-code)}"
                listen(index, {"event": VOID, "reason": reason})
            elif code != 0 or index in speaking:
                said, _ = process.last_words(process.tail(self._stderr(index)))
                endings[index] = process.ending(code, limit_s if index in speaking else None, said)
        return endings

    def _begin(self, index: int, command: Sequence[str], environ: Mapping[str, str]) -> "subprocess.Popen[str]":
        own = self.folder / str(index)
        own.mkdir(exist_ok=True)
        with self._stderr(index).open("wb") as stderr:
            child = subprocess.Popen(
                command,
                cwd=own,
                env={**environ, process.WORD: self._word},
                stdin=subprocess.PIPE,  # its end is the end of this process
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        threading.Thread(target=self._read, args=(index, child), daemon=True).start()
        return child

    def _stderr(self, index: int) -> Path:
        return self.folder / f"{index}.stderr"

    def _read(self, index: int, child: "subprocess.Popen[str]") -> None:
        assert child.stdout is not None
        for line in child.stdout:
            if (event := process.hear(line, self._word)) is not None:
                self._heard.put((index, event))
                if event["event"] == READY:
                    self._ready.release()
        self._heard.put((index, None))
        self._ready.release()


def launch(job: Job, plan: Plan, batch: Batch, scratch: Path, environ: Mapping[str, str]) -> Start:
    """Start a batch.

    Args:
        job: what its processes are told, beside what is found here.
        plan: of the batch.
        batch: with all of its trials.
        scratch: parent of the folder that it starts in.
        environ: where allowed variables are taken from.

    Raises:
        VoidError: this machine has no place for it.
    """
    (placement, room), tool, held = _placement(batch), _tool(batch, environ), ExitStack()
    shares = held.enter_context(mps.shares(placement, environ)) if placement else [{}]
    folder = trees.exclusive_directory(scratch, "batch").resolve()
    try:
        slot, built = Path(job.slot), batch.built if batch.backend == "cuda" else ()
        libraries = tuple(trees.library(slot, edits) for edits in built)
        ranks_on = tuple(seat.gpu for seat in placement.seats) if placement else ()
        told = replace(job, libraries=libraries, gpus=ranks_on, room=room, folder=str(folder))
        command = [*tool, *process.command("harness.core.worker", str(told.save()))]
        usual, port = process.environment(slot, environ), _free_port()
        environs = [{**usual, **_in_group(rank, len(shares), port), **one} for rank, one in enumerate(shares)]
        start = Start(told, command, environs, float(getattr(plan.settings, "grace_s", GRACE_S)), held)
        if tool:  # it may not pass on the end of its input
            keeping = held.enter_context(keeper.kept())
            for child in start.children:
                keeping.group(child.pid)
        if placement:
            start.states += gpus.states(environ)
            held.callback(lambda: start.states.extend(gpus.states(environ)))
        return start
    except BaseException:
        held.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise


def place_of(tool: str, environ: Mapping[str, str]) -> str | None:
    """Where a tool is on this machine, or None."""
    return shutil.which(tool, path=os.pathsep.join((environ.get("PATH", ""), *_TOOLS)))


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


def _placement(batch: Batch) -> tuple[gpus.Placement | None, int | None]:
    """The GPU of every rank, and where some share one the SMs that the main kernels of each have room on.

    Raises:
        VoidError: no GPUs, too few of them, or no torch to use them by.
    """
    if batch.backend != "cuda" or batch.layout is None:
        return None, None
    if isinstance(here := gpus.found(), str):
        raise VoidError(here)
    if find_spec("torch") is None:
        raise VoidError("needs torch, which this Python lacks")
    layout, planned = Layout.parse(batch.layout), batch.ranks_per_gpu
    try:
        found = gpus.place(layout, here.count) if planned is None else gpus.planned(layout, planned)
    except PlacementError as error:
        raise VoidError(error.problem) from error
    if here.count < (needed := 1 + max(seat.gpu for seat in found.seats)):
        raise VoidError(f"{layout} as placed needs {needed} GPUs, this machine shows {here.count}")
    return found, found.room(here.sms) if found.is_shared else None


def _in_group(rank: int, num_ranks: int, port: int) -> dict[str, str]:
    """A rank's place in its group, and no NVLink multicast; nothing for a process that holds all ranks."""
    if num_ranks == 1:
        return {}
    place = {"RANK": str(rank), "WORLD_SIZE": str(num_ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {**place, "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
