"""One start of a batch: its processes, each fresh, followed together to their end."""

import os
import queue
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core import process
from harness.core.worker import GO, MEASURE, READY, VOID

GRACE_S = 5.0
"""How long ranks may go on when one has ended, in good order or not: their waits time out in that time and name it."""
_TICK_S = 0.1

Listen = Callable[[int, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Seat:
    """Where one process of a start runs.

    Args:
        rank: its number, or None where one process holds every rank.
        environ: what its environment holds beside the usual.
        tool: command that it is started under.
    """

    rank: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    tool: Sequence[str] = ()


class Start:
    """The processes of a batch, from their start to their end.

    Args:
        job: path of the job file; the folder that holds it takes a folder and a file for each process.
        slot: the only place to import from.
        seats: one a process.
        environ: where allowed variables are taken from.
        grace_s: as GRACE_S, where waits of the ranks may take longer.
    """

    def __init__(
        self, job: Path, slot: Path, seats: Sequence[Seat], environ: Mapping[str, str], grace_s: float = GRACE_S
    ):
        self.folder, self._slot, self._seats, self._environ = job.parent, slot, seats, environ
        self._grace_s = grace_s
        self._heard: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self._early: list[tuple[int, dict[str, Any] | None]] = []
        self._port, self._word = _free_port() if len(seats) > 1 else 0, secrets.token_hex(8)
        self._children: list[subprocess.Popen[str]] = []
        try:
            for index in range(len(seats)):
                self._children.append(self._begin(index, job))
        except BaseException:
            self.kill()
            raise

    def await_ready(self, most_s: float) -> None:
        """Wait until every process waits for its turn, one has ended, or it has taken so long."""
        ready, end = 0, time.monotonic() + most_s
        while ready < len(self._seats) and time.monotonic() < end:
            with suppress(queue.Empty):
                self._early.append(one := self._heard.get(timeout=_TICK_S))
                if one[1] is None:
                    return
                ready += one[1]["event"] == READY

    def go(self) -> None:
        """They may take their GPUs."""
        self._tell(GO)

    def measure(self) -> None:
        """They may measure."""
        self._tell(MEASURE)

    def follow(self, listen: Listen, limit_s: float) -> dict[int, str]:
        """Pass on what each says until all have ended; whoever is left is ended.

        Returns:
            By index why a process ended badly.
        """
        limit, deadline = time.monotonic() + limit_s, float("inf")
        speaking = set(range(len(self._seats)))
        try:
            while speaking and time.monotonic() < min(limit, deadline):
                index, event = self._next()
                if index is None:
                    continue
                if event is not None:
                    listen(index, event)
                    continue
                speaking.discard(index)
                deadline = min(deadline, time.monotonic() + self._grace_s)
            timed_out = time.monotonic() >= limit
            for index in set(range(len(self._seats))) - speaking:
                with suppress(subprocess.TimeoutExpired):  # it has said its last word, and is on its way out
                    self._children[index].wait(self._grace_s)
        finally:
            self.kill()
        codes = [child.wait() for child in self._children]
        late = f"ended: another rank was gone for {self._grace_s:.0f} s"
        endings = {index: late for index in speaking if not timed_out}
        for index, code in enumerate(codes):
            if index not in endings and -code in process.SIGNALS:
                reason = f"interrupted: somebody ended the process by {process.signal_name(-code)}"
                listen(index, {"event": VOID, "reason": reason})
            elif index not in endings and (code != 0 or index in speaking):
                said, _ = process.last_words(process.tail(self.stderr(index)))
                endings[index] = process.ending(code, limit_s if timed_out and index in speaking else None, said)
        return endings

    def kill(self) -> None:
        """End every process with everything it has started."""
        for child in self._children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    @property
    def pids(self) -> list[int]:
        """Of the processes, each the leader of a group."""
        return [child.pid for child in self._children]

    def stderr(self, index: int) -> Path:
        """What a process said on standard error."""
        return self.folder / f"{index}.stderr"

    def _next(self) -> tuple[int | None, dict[str, Any] | None]:
        if self._early:
            return self._early.pop(0)
        try:
            return self._heard.get(timeout=_TICK_S)
        except queue.Empty:
            return None, None

    def _tell(self, word: str) -> None:
        for child in self._children:
            assert child.stdin is not None
            with suppress(BrokenPipeError, ValueError):
                child.stdin.write(f"{word}\n")
                child.stdin.flush()

    def _begin(self, index: int, job: Path) -> "subprocess.Popen[str]":
        seat, own = self._seats[index], self.folder / f"{index}"
        own.mkdir(exist_ok=True)
        with self.stderr(index).open("wb") as stderr:
            child = subprocess.Popen(
                [*seat.tool, *process.command("harness.core.worker", str(job))],
                cwd=own,
                env={
                    **process.environment(self._slot, self._environ),
                    process.WORD: self._word,
                    **self._place(seat),
                    **seat.environ,
                },
                stdin=subprocess.PIPE,  # its end is the end of this process
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        threading.Thread(target=self._read, args=(index, child), daemon=True).start()
        return child

    def _place(self, seat: Seat) -> dict[str, str]:
        """A rank's place in the group, and no NVLink multicast."""
        if seat.rank is None:
            return {}
        place = {"RANK": str(seat.rank), "WORLD_SIZE": str(len(self._seats)), "MASTER_ADDR": "127.0.0.1"}
        no_multicast = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
        return {**place, "MASTER_PORT": str(self._port), **no_multicast}

    def _read(self, index: int, child: "subprocess.Popen[str]") -> None:
        assert child.stdout is not None
        for line in child.stdout:
            if (event := process.hear(line, self._word)) is not None:
                self._heard.put((index, event))
        self._heard.put((index, None))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
