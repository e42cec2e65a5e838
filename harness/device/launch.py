"""Starts the ranks of a device run, each a fresh process, and gathers what they measured."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afdep import Layout
from harness.device.settings import Settings

_LIMIT_S = 240


@dataclass(frozen=True)
class Outcome:
    """What one run of all ranks gave.

    Args:
        settings: of the run.
        repeat: which of its repeats, from 0.
        ranks: what each rank wrote, by rank; a rank that wrote nothing is left out.
        log: the end of every rank's output.
    """

    settings: Settings
    repeat: int
    ranks: dict[int, dict[str, Any]]
    log: str

    @property
    def failure(self) -> str | None:
        """Why the run is none, if so."""
        missing = [r for r in range(Layout.parse(self.settings.layout).num_ranks) if r not in self.ranks]
        said = [f"rank {rank}: {found['failure']}" for rank, found in self.ranks.items() if "failure" in found]
        return "; ".join([*said, *(f"rank {rank} left nothing" for rank in missing)]) or None


def run(settings: Settings, repeat: int, position: int, folder: Path) -> Outcome:
    """Start the ranks, wait for them, and read what they wrote. A rank that outlives the limit is ended."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"run{repeat}-{position}"
    settings.save(stem.with_name(stem.name + ".settings"))
    num_ranks = Layout.parse(settings.layout).num_ranks
    port = _free_port()
    processes = [_start(stem, rank, num_ranks, port) for rank in range(num_ranks)]
    logs = [_finish(process) for process in processes]
    ranks = {rank: found for rank in range(num_ranks) if (found := _read(stem, rank)) is not None}
    return Outcome(settings, repeat, ranks, "\n".join(logs))


def table(outcomes: Iterable[Outcome], us_of: Any) -> str:
    """One line a run: the arm, and for each token count the figure that `us_of(outcome, tokens)` gives."""
    lines = []
    for outcome in outcomes:
        figures = [f"T={tokens}: {us_of(outcome, tokens):.2f}" for tokens in outcome.settings.tokens]
        lines.append(f"{outcome.settings.arm} H{outcome.settings.hidden} repeat {outcome.repeat}  {'  '.join(figures)}")
    return "\n".join(lines)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _start(stem: Path, rank: int, num_ranks: int, port: int) -> "subprocess.Popen[str]":
    environment = os.environ | {
        "RANK": str(rank),
        "WORLD_SIZE": str(num_ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "harness.device.rank", f"{stem}.settings", str(stem)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _finish(process: "subprocess.Popen[str]") -> str:
    try:
        return process.communicate(timeout=_LIMIT_S)[0][-4000:]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0][-4000:] + "\nended: it outlived its limit"


def _read(stem: Path, rank: int) -> dict[str, Any] | None:
    path = stem.with_name(f"{stem.name}.{rank}.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
