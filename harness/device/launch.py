"""Starts the ranks of a measured process, each a fresh process of its own, and follows all of them to their end."""

import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import events, process

_TICK_S = 0.1

Listener = Callable[[int, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Start:
    """How the ranks of a process are started.

    Args:
        job: the job file, the worker's own.
        slot: the only place to import from.
        shares: by rank, what its environment holds of its share of a GPU; empty where that is its own.
        grace_s: how long ranks may go on when one has ended, in good order or not: waits for it time out and name it.
        folder: where each gets an empty folder to start in, and a file for its standard error.
        environ: where allowed variables are taken from.
        module: what each runs.
    """

    job: Path
    slot: Path
    shares: Sequence[Mapping[str, str]]
    grace_s: float
    folder: Path
    environ: Mapping[str, str]
    module: str = "harness.device.rank"


def run(start: Start, listen: Listener) -> dict[int, str]:
    """Start every rank, pass on what each says, and end them all before this returns.

    Returns:
        Why a rank ended badly, by rank; one that was ended for another's sake says so.
    """
    heard: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
    port = _free_port()
    children = [_start(start, rank, port) for rank in range(len(start.shares))]
    try:
        readers = [threading.Thread(target=_read, args=(r, c, heard), daemon=True) for r, c in enumerate(children)]
        for reader in readers:
            reader.start()
        late = _follow(children, heard, listen, start.grace_s)
    finally:
        for child in children:
            child.kill()
    return {rank: why for rank, child in enumerate(children) if (why := _why(start, rank, child, late)) is not None}


def _follow(children: Sequence["subprocess.Popen[str]"], heard: Any, listen: Listener, grace_s: float) -> set[int]:
    """Listen until every rank has closed its output; the ranks that had not when the grace for them ended."""
    speaking, deadline = set(range(len(children))), float("inf")
    while speaking and time.monotonic() < deadline:
        try:
            rank, event = heard.get(timeout=_TICK_S)
        except queue.Empty:
            continue
        if event is not None:
            listen(rank, event)
            continue
        speaking.discard(rank)
        deadline = min(deadline, time.monotonic() + grace_s)
    return speaking


def _read(rank: int, child: "subprocess.Popen[str]", heard: Any) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if (event := events.hear(line)) is not None:
            heard.put((rank, event))
    heard.put((rank, None))


def _start(start: Start, rank: int, port: int) -> "subprocess.Popen[str]":
    own = start.folder / f"rank{rank}"
    own.mkdir()
    with _stderr(start, rank).open("w", encoding="utf-8") as stderr:
        return subprocess.Popen(
            process.command(start.module, str(start.job)),
            cwd=own,
            env=environment(start, rank, port),
            stdin=subprocess.PIPE,  # its end is the end of this process
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
        )


def environment(start: Start, rank: int, port: int) -> dict[str, str]:
    """The environment of a rank: that of every measured process, its place in the group, and no NVLink multicast."""
    place = {"RANK": str(rank), "WORLD_SIZE": str(len(start.shares)), "MASTER_ADDR": "127.0.0.1"}
    no_multicast = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
    own = {**place, "MASTER_PORT": str(port), **no_multicast, **start.shares[rank]}
    return process.environment(start.slot, start.environ) | own


def _why(start: Start, rank: int, child: "subprocess.Popen[str]", late: set[int]) -> str | None:
    returncode = child.wait()
    if rank in late:
        return f"ended by the worker: another rank was gone for {start.grace_s:.0f} s"
    if returncode == 0:
        return None
    said, _ = process.last_words(_stderr(start, rank).read_text(encoding="utf-8", errors="replace"))
    return process.ending(returncode, None, said)


def _stderr(start: Start, rank: int) -> Path:
    return start.folder / f"rank{rank}.txt"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
