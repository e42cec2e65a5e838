"""Runs of two ranks, each under a tool of its own on a GPU of its own, and what the tool says of them."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness import events, process
from harness.errors import UsageError
from harness.sanitizer import keeper
from harness.sanitizer.plants import PLANTS, SOUND, Plant

ARMS = ("m2n", "afdep")
TOOLS = ("memcheck", "racecheck")
ERRORS_EXIT = 99
"""Exit code that the tool is told to take where it has reported an error."""

RANK = "harness.sanitizer.rank"
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
_ERROR_AT = re.compile(
    r"^=========(?!.*Frame:).*\bat (?:0x[0-9a-f]+ in )?(?!0x)(\S.*?)(?:\+0x[0-9a-f]+|$| in )", re.MULTILINE
)
"""Where a report places an error: memcheck in a line of its own, racecheck behind each of both accesses."""
_PLACES = (Path("/usr/local/cuda/bin/compute-sanitizer"), Path("/usr/local/cuda/compute-sanitizer/compute-sanitizer"))


@dataclass(frozen=True)
class Run:
    """One start of two ranks.

    Args:
        tool: of compute-sanitizer.
        arm: of both.
        plant: in the tree that they load, or None.
    """

    tool: str
    arm: str
    plant: Plant | None = None

    @property
    def tree(self) -> str:
        return SOUND if self.plant is None else self.plant.name


@dataclass(frozen=True)
class Ended:
    """One rank of a run.

    Args:
        exit_code: of the tool, or None where the rank was ended for the limit.
        said: by the rank on standard output: its events.
        log: what the tool wrote.
        seconds: from start to end.
    """

    exit_code: int | None
    said: Sequence[Mapping[str, object]]
    log: str
    seconds: float

    @property
    def errors(self) -> int | None:
        """What the tool counts in its summary."""
        found = _SUMMARY.search(self.log)
        return None if found is None else int(found.group(1) or found.group(2))

    def reports_in(self, kernel: str) -> bool:
        """Whether the tool places an error in this kernel: what else its log names, such as frames, says nothing."""
        named = re.compile(rf"(?:^|[\s:]){re.escape(kernel)}(?:$|[(<])")
        return any(named.search(place) for place in _ERROR_AT.findall(self.log))

    @property
    def first_lines(self) -> str:
        """What the tool said first of errors, without its margin."""
        lines = [line.removeprefix("=========").strip() for line in self.log.splitlines() if line.startswith("===")]
        told = [line for line in lines if line and not line.startswith(("COMPUTE-SANITIZER", "Target application"))]
        return "\n".join(line for line in told if not _SUMMARY.search(line))[:600] if self.errors != 0 else ""


def planned() -> list[Run]:
    """Every tool on every arm of the sound tree, and each plant under its tool."""
    return [*(Run(tool, arm) for tool in TOOLS for arm in ARMS), *(Run(one.tool, "afdep", one) for one in PLANTS)]


def executable(environ: Mapping[str, str]) -> Path:
    """The tool.

    Raises:
        UsageError: there is none.
    """
    found = shutil.which("compute-sanitizer", path=environ.get("PATH", ""))
    for path in [*([Path(found)] if found else []), *_PLACES]:
        if path.exists():
            return path
    raise UsageError("compute-sanitizer: expected it on the PATH, received none.", "It comes with the CUDA toolkit.")


def play(run: Run, tool: Path, slots: Path, folder: Path, limit_s: float, module: str = RANK) -> list[Ended]:
    """Start both ranks, wait for them, and end what is left when the limit is over.

    Args:
        run: what to play.
        tool: compute-sanitizer.
        slots: folder of the trees by name.
        folder: takes the logs.
        limit_s: of the run.
        module: what each rank runs.
    """
    began = time.monotonic()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    ranks: list[subprocess.Popen[bytes]] = []
    with keeper.kept() as keeping:
        try:
            for rank in range(2):
                ranks.append(_start(run, rank, port, tool, slots / run.tree, folder, module))
                keeper.tell(keeping, ranks[-1].pid)
            return [_ended(one, rank, folder, began, began + limit_s) for rank, one in enumerate(ranks)]
        finally:
            for one in ranks:
                _kill(one)


def _start(
    run: Run, rank: int, port: int, tool: Path, slot: Path, folder: Path, module: str
) -> "subprocess.Popen[bytes]":
    place = {
        "RANK": str(rank),
        "GPU": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [str(tool), "--tool", run.tool, "--target-processes", "all", "--error-exitcode", str(ERRORS_EXIT)]
    command += ["--report-api-errors", "no"] if run.tool == "memcheck" else []
    command += ["--log-file", str(folder / f"{rank}.log")]
    with (folder / f"{rank}.out").open("wb") as out, (folder / f"{rank}.err").open("wb") as err:
        return subprocess.Popen(
            [*command, *process.command(module, run.arm)],
            cwd=folder,
            env=process.environment(slot.resolve(), os.environ) | place,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def _ended(one: "subprocess.Popen[bytes]", rank: int, folder: Path, began: float, deadline: float) -> Ended:
    code: int | None = None
    with suppress(subprocess.TimeoutExpired):
        code = one.wait(max(deadline - time.monotonic(), 0.1))
    seconds = time.monotonic() - began
    _kill(one)
    said = [event for line in _text(folder / f"{rank}.out").splitlines() if (event := events.hear(line)) is not None]
    log = _text(folder / f"{rank}.log") or _text(folder / f"{rank}.err")
    return Ended(code, said, log, round(seconds, 1))


def _kill(one: "subprocess.Popen[bytes]") -> None:
    """End a tool and its rank, which is a child of it in the tool's own session."""
    with suppress(ProcessLookupError):
        os.killpg(one.pid, signal.SIGKILL)
    one.wait()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def version(tool: Path) -> str:
    """What the tool says it is, in one line."""
    said = subprocess.run([str(tool), "--version"], capture_output=True, text=True, check=False).stdout
    return next((line.strip() for line in said.splitlines() if "ersion" in line), "unknown")


def digest_of(ended: Sequence[Ended]) -> str | None:
    """The native digest that the ranks of a run said."""
    return next((str(one["digest"]) for rank in ended for one in rank.said if "digest" in one), None)
