"""The probes' program: built once per state of its sources and per compiler, or carried by a tree; run a group at a time."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afdep import build as native
from afdep.errors import BuildError
from harness.core import process

GROUPS = ("core", "memory", "launch", "first_use", "link")
GROUP_TIMEOUT_S = 20
"""Of a group's process, with the start of CUDA; a group takes a few seconds."""
NO_GPU = 3
"""Exit status of the program where there is no GPU."""
TREE = Path(__file__).resolve().parents[3]
SOURCES = Path("harness/studies/calibrate/native")
FLAGS = ("-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-cudart", "static", "-Werror", "all-warnings")
CLOCKS_AND_VERSIONS: Mapping[str, type] = {
    "gpus": int,
    "cuda_driver": int,
    "cuda_runtime": int,
    "most_sm_mhz": float,
    "memory_mhz": float,
}
_DRIVER = Path("/proc/driver/nvidia/version")

Facts = dict[str, Any]


def probes_hash(tree: Path = TREE) -> str:
    """`c` and 16 digits over the names and contents of the probes' sources."""
    digest = hashlib.sha256()
    for path in sorted((tree / SOURCES).iterdir()):
        digest.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return "c" + digest.hexdigest()[:16]


def carried(tree: Path = TREE) -> Path:
    """Where a tree carries the built program of exactly its sources."""
    return tree / "native" / probes_hash(tree) / "probes"


def carry(slot: Path) -> None:
    """Put the built program into a tree that travels, where `build` finds it.

    Raises:
        BuildError: it does not build.
    """
    carried(slot).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(build(slot), carried(slot))


def build(tree: Path = TREE, folder: Path | None = None) -> Path:
    """The program of a tree: the one it carries, or one from the cache, built if that does not have it.

    Args:
        tree: the tree whose sources are built.
        folder: the cache, by default that of the native libraries.

    Raises:
        BuildError: no nvcc, or its first error.
    """
    if (program := carried(tree)).exists():
        return program
    if (compiler := shutil.which("nvcc")) is None:
        next_step = "Put the CUDA 13.0 compiler on PATH, or calibrate from a node folder, which carries the program."
        raise BuildError("compiler: expected nvcc on the PATH, received none.", next_step)
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    key = hashlib.sha256("\0".join([version, *FLAGS]).encode()).hexdigest()[:16]
    program = (folder or native.cache_folder()) / probes_hash(tree) / f"probes_{key}"
    if not program.exists():
        _compile([compiler, *FLAGS, str(tree / SOURCES / "probes.cu")], program)
    return program


def _compile(command: list[str], program: Path) -> None:
    """Compile into a file of its own and rename it into place, so that several processes may build at once."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent, prefix=".building-") as scratch:
        output = Path(scratch) / program.name
        done = subprocess.run([*command, "-o", str(output)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or [""]
            raise BuildError(f"probes: expected to compile, received: {said[0].strip()}", "Needs nvcc 13.0 or newer.")
        output.replace(program)


@dataclass(frozen=True)
class Output:
    """What the program printed for a group.

    Args:
        lines: of its standard output.
        status: its exit status; None where it was ended because its time was up.
        error: the last line of its standard error.
    """

    lines: Sequence[str]
    status: int | None
    error: str = ""


def run(program: Path, group: str, timeout_s: float = GROUP_TIMEOUT_S) -> Output:
    """Run the program for a group, in a process that is ended after `timeout_s`."""
    try:
        done = subprocess.run([str(program), group], capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as expired:
        return Output(_text(expired.stdout).splitlines(), None, f"no end within {timeout_s:g} s")
    return Output(_text(done.stdout).splitlines(), done.returncode, process.last_line(_text(done.stderr)))


def _text(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")


def parsed(group: str, output: Output) -> tuple[Facts, list[Facts]]:
    """What a group said of the machine, and its readings; a void one has a reason."""
    found = [_line(group, line) for line in output.lines]
    machine = next((one for one in found if "device" in one), {})
    readings = [one for one in found if "probe" in one]
    if output.status != 0 or not readings:
        ended = f"ended with status {output.status}: {output.error or 'nothing'}"
        readings.append({"probe": group, "reason": output.error if output.status is None else ended})
    return machine, readings


def _line(group: str, line: str) -> Facts:
    try:
        content = json.loads(line, parse_constant=int)  # which refuses NaN and infinities
        if "device" in content:
            return {"device": str(content["device"])} | {k: kind(content[k]) for k, kind in CLOCKS_AND_VERSIONS.items()}
        if "void" in content:
            return {"probe": str(content["probe"]), "reason": str(content["void"])}
        texts = {name: str(content[name]) for name in ("probe", "variant", "unit")}
        return {**texts, "samples": [float(one) for one in content["samples"]]} | {
            k: int(content[k]) for k in ("ctas", "bytes")
        }
    except (ValueError, TypeError, KeyError) as error:
        return {"probe": group, "reason": f"unreadable: {line[:80]!r}: {type(error).__name__}"}


def driver(path: Path = _DRIVER) -> str | None:
    """The version of the kernel's driver, or None where the machine does not tell."""
    words = path.read_text(encoding="utf-8").split() if path.exists() else []
    return next((word for word in words if word[:1].isdigit() and "." in word), None)
