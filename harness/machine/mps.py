"""A private daemon of NVIDIA's multi-process service, for ranks that share a GPU, from its start to its end.

Its pipe and log folders are its own, so it meets no other daemon of the machine and nothing is left behind; a keeper
ends it where the process that started it is killed.
"""

import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.machine import keeper
from harness.machine.gpus import Placement
from harness.study import VoidError

CONTROL = "nvidia-cuda-mps-control"
_FORCED_AFTER_S = 5
"""How long the daemon leaves its clients when it is told to quit."""
_ENDS_WITHIN_S = 5
"""How long a killed daemon may take to be gone."""
_LIMIT_S = 20.0


@dataclass(frozen=True)
class Daemon:
    """A running daemon.

    Args:
        executable: the control program.
        folder: of its pipes and logs.
        environ: of the processes that talk to it.
        limit_s: how long one command to it may take.
    """

    executable: str
    folder: Path
    environ: Mapping[str, str]
    limit_s: float

    def client(self, percentage: int) -> dict[str, str]:
        """What a client's environment holds beside the usual: the way to this daemon, and the client's share of SMs."""
        return {**_folders(self.folder), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percentage)}

    def start(self) -> None:
        """Start it.

        Raises:
            VoidError: it did not start, or does not answer.
        """
        for folder in _folders(self.folder).values():
            Path(folder).mkdir()
        self._run("", "-d")
        self._run("get_server_list\n")

    def quit(self) -> None:
        """End it, by its own command or, where it does not follow, by its process id."""
        with suppress(VoidError):
            self._run(f"quit -t {_FORCED_AFTER_S}\n")
        with suppress(OSError, ValueError), ExitStack() as opened:
            process = os.pidfd_open(int((self.folder / "pipe" / f"{CONTROL}.pid").read_text(encoding="utf-8")))
            opened.callback(os.close, process)
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [], _ENDS_WITHIN_S)

    def _run(self, commands: str, *options: str) -> None:
        with tempfile.TemporaryFile("w+", dir=self.folder) as said:  # a daemon keeps a pipe open, a file does not wait
            command = [self.executable, *options]
            try:
                done = subprocess.run(
                    command, input=commands, stdout=said, stderr=said, text=True, env=self.environ, timeout=self.limit_s
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise VoidError(f"needs MPS: {error}") from error
            said.seek(0)
            if done.returncode != 0:
                lines = [line.strip() for line in said.read().splitlines() if line.strip()]
                raise VoidError(f"needs MPS: {lines[-1] if lines else f'exit code {done.returncode} of {CONTROL}'}")


@contextmanager
def private_daemon(environ: Mapping[str, str], limit_s: float = _LIMIT_S) -> Iterator[Daemon]:
    """A daemon for the `with` block; it ends with the block, however that ends.

    Args:
        environ: the environment, whose PATH names the control program.
        limit_s: how long one command to the daemon may take.

    Raises:
        VoidError: MPS is not to be had.
    """
    executable = shutil.which(CONTROL, path=environ.get("PATH", ""))
    if executable is None:
        raise VoidError(f"needs MPS: no {CONTROL} on the PATH")
    with tempfile.TemporaryDirectory(prefix="afdep-mps-", ignore_cleanup_errors=True) as name:
        daemon = Daemon(executable, Path(name), {**environ, **_folders(Path(name))}, limit_s)
        with keeper.kept() as keeping:
            keeping.call("harness.machine.mps:end_left_behind", str(daemon.folder), executable)
            try:
                daemon.start()
                yield daemon
            finally:
                daemon.quit()


def end_left_behind(folder: str, executable: str) -> None:
    """End the daemon of a process that is gone, and remove its folder."""
    Daemon(executable, Path(folder), {**os.environ, **_folders(Path(folder))}, _LIMIT_S).quit()
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shares(placement: Placement, environ: Mapping[str, str]) -> Iterator[list[dict[str, str]]]:
    """By rank what its environment holds of its share of a GPU; a daemon serves ranks that share one.

    Raises:
        VoidError: ranks share a GPU, and MPS is not to be had.
    """
    if not placement.is_shared:
        yield [{} for _ in placement.seats]
        return
    with private_daemon(environ) as daemon:
        yield [daemon.client(seat.percentage) for seat in placement.seats]


def _folders(folder: Path) -> dict[str, str]:
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
