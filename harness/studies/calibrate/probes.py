"""The probes' program: built in its tree, once for each state of its sources; run for a group of probes at a time."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from afdep.errors import BuildError
from harness.core import process
from harness.study import VoidError

GROUPS = ("core", "memory", "launch", "first_use", "link")
NO_GPU = 3
"""Exit status of the program where there is no GPU."""
TREE = Path(__file__).resolve().parents[3]
SOURCES = Path("harness/studies/calibrate/native")
FLAGS = ("-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-cudart", "static", "-Werror", "all-warnings")
MACHINE = {
    "device": str,
    "gpus": int,
    "cuda_driver": int,
    "cuda_runtime": int,
    "most_sm_mhz": float,
    "memory_mhz": float,
}
"""What the first line of a group says of the machine."""
_READING = {
    "probe": str,
    "variant": str,
    "ctas": int,
    "bytes": int,
    "unit": str,
    "samples": lambda samples: [float(one) for one in samples],
}
_LINES: Sequence[dict[str, Any]] = (MACHINE, {"probe": str, "void": str}, _READING)


def probes_hash(tree: Path = TREE) -> str:
    """`c` and 16 digits over the names and contents of the probes' sources."""
    digest = hashlib.sha256()
    for path in sorted((tree / SOURCES).iterdir()):
        digest.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return "c" + digest.hexdigest()[:16]


def build(tree: Path = TREE) -> Path:
    """The program of a tree, which carries it from then on: it is compiled where there is none of just its sources.

    Raises:
        BuildError: no nvcc, or its first error.
    """
    program = tree / "native" / probes_hash(tree) / "probes"
    if program.exists():
        return program
    if (compiler := shutil.which("nvcc")) is None:
        next_step = "Put the CUDA 13.0 compiler on PATH, or calibrate from a node folder, which carries the program."
        raise BuildError("compiler: expected nvcc on the PATH, received none.", next_step)
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent, prefix=".building-") as scratch:
        output = Path(scratch) / program.name
        command = [compiler, *FLAGS, str(tree / SOURCES / "probes.cu"), "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or [""]
            raise BuildError(f"probes: expected to compile, received: {said[0].strip()}", "Needs nvcc 13.0 or newer.")
        output.replace(program)
    return program


def run(program: Path, group: str, timeout_s: float = 20) -> list[dict[str, Any]]:
    """Run the program for a group, in a process that is ended after `timeout_s`; it takes a few seconds.

    Returns:
        What it said of the machine, and its readings; a void one has a reason.

    Raises:
        VoidError: no GPU.
    """
    try:
        done = subprocess.run([str(program), group], capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as expired:
        return parsed(group, expired.stdout or b"", f"no end within {timeout_s:g} s")
    said = process.last_line(done.stderr.decode(errors="replace"))
    if done.returncode == NO_GPU:
        raise VoidError(f"expected a GPU, received {said or 'none'}")
    return parsed(group, done.stdout, f"ended with status {done.returncode}: {said}" if done.returncode else None)


def parsed(group: str, output: bytes, fault: str | None = None) -> list[dict[str, Any]]:
    """What a group printed, as facts, and why it did not come to its end."""
    found = [_line(group, line) for line in output.decode(errors="replace").splitlines()]
    return found if fault is None else [*found, {"probe": group, "void": fault}]


def _line(group: str, line: str) -> dict[str, Any]:
    try:
        content = json.loads(line, parse_constant=int)  # which takes no NaN and no infinity
        kind = next(one for one in _LINES if set(one) <= set(content))
        return {name: read(content[name]) for name, read in kind.items()}
    except (ValueError, TypeError, StopIteration) as error:
        return {"probe": group, "void": f"unreadable: {line[:80]!r}: {type(error).__name__}"}


def driver(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """The version of the kernel's driver, or None where the machine does not tell."""
    words = path.read_text(encoding="utf-8").split() if path.exists() else []
    return next((word for word in words if word[:1].isdigit() and "." in word), None)
