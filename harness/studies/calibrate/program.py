"""Calibrations: micro-benchmarks of this machine's GPUs, whose readings give constants of the simulated machine.

One process runs the groups of probes in turn, each as a process of a program that is built in its tree,
once for each state of its sources. What the readings amount to is
judged where the report is made; a plan holds the machine description and the limits that they are judged by.
"""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from afdep import Machine
from afdep.errors import BuildError
from harness.core import process
from harness.core.fields import Number
from harness.core.plan import Plan
from harness.records.envelope import OK, VOID, Envelope
from harness.study import Batch, Block, Ended, Said, VoidError

GROUP = "harness.ranks.group"
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
_LINES: Sequence[dict[str, Any]] = (
    MACHINE,
    {"probe": str, "void": str},
    {
        "probe": str,
        "variant": str,
        "ctas": int,
        "bytes": int,
        "unit": str,
        "samples": lambda found: [*map(float, found)],
    },
)
"""What a line can hold, with what reads each field."""


@dataclass(frozen=True)
class Bounds:
    """What a constant can be at all.

    Args:
        lower, upper: bounds of its value.
    """

    lower: float
    upper: float


@dataclass(frozen=True)
class Limits:
    """What a measured constant must keep to count.

    Args:
        most_spread_pct: of the value; a wider spread makes it void.
        least_spread_ns: of a constant in ns; a spread below this is never too wide.
        bounds: by constant.
    """

    most_spread_pct: Number
    least_spread_ns: Number
    bounds: Mapping[str, Bounds]


@dataclass(frozen=True)
class Settings:
    """A calibration.

    Args:
        base: the machine description whose constants stay where nothing measures them.
        limits: what a measured constant must keep.
        probes_hash: of the probes' sources.
    """

    base: Machine
    limits: Limits
    probes_hash: str


@dataclass(frozen=True)
class Trial:
    """A group of probes."""

    group: str


@dataclass(frozen=True, kw_only=True)
class Record(Envelope):
    """What a probe read, or why it or its group did not.

    Args:
        probes_hash: of the probes' sources.
        gpus: how many the machine showed.
        cuda_driver, cuda_runtime: as the CUDA API numbers them.
        most_sm_mhz, memory_mhz: clocks that the device is made for; what an SM ran at is a reading.
        probe, variant: what was measured, and how; a group that did not come to its end is a probe too.
        ctas: CTAs, or warps where the probe is of one CTA; 0 where that has no meaning.
        bytes: of a row or message; 0 where that has no meaning.
        unit: of the samples.
        samples: in the order they were taken; none of a void probe.
    """

    table: ClassVar[str] = "readings"
    probes_hash: str = ""
    gpus: int | None = None
    cuda_driver: int | None = None
    cuda_runtime: int | None = None
    most_sm_mhz: float | None = None
    memory_mhz: float | None = None
    probe: str = ""
    variant: str = ""
    ctas: int = 0
    bytes: int = 0
    unit: str = ""
    samples: tuple[float, ...] = ()


def blocks(settings: Settings, done: Sequence[Record]) -> Sequence[Block]:
    """One process for all groups, which count together: they describe one machine at one time."""
    batch = Batch(tuple(map(Trial, GROUPS)), "cuda", expected_s=60.0)
    return () if done else (Block((batch,), on_loss="void"),)


def run(batch: Batch, group: Any) -> Iterator[Said]:
    """Run each group of probes.

    Raises:
        VoidError: no GPU, or other probes than the plan's.
        BuildError: the probes do not compile.
    """
    if probes_hash() != group.settings.probes_hash:
        raise VoidError(f"probes changed since the plan: {group.settings.probes_hash} planned")
    program = build()
    group.turn()
    for index, trial in enumerate(batch.trials):
        found = probe(program, trial.group)
        group.session.opened(driver=driver(), **next((one for one in found if "device" in one), {}))
        yield Said(index, {"readings": [one for one in found if "probe" in one]})


def judge(plan: Plan, batch: Batch, trial: Trial, ended: Ended) -> list[Record]:
    """A row for each reading, and for each probe or group that gave none."""
    nothing: list[dict[str, Any]] = [{"probe": trial.group, "void": ended.reason or "it printed nothing"}]
    shared: dict[str, Any] = {name: ended.opened.get(0, {}).get(name) for name in MACHINE if name != "device"}
    return [
        Record(
            status=OK if "void" not in one else ended.status if ended.status != OK else VOID,
            reason=one.get("void"),
            probes_hash=plan.settings.probes_hash,
            samples=tuple(one.get("samples", ())),
            **shared,
            **{name: one[name] for name in ("probe", "variant", "ctas", "bytes", "unit") if name in one},
        )
        for one in ended.said.get(0, {}).get("readings") or nothing
    ]


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


def probe(program: Path, group: str, timeout_s: float = 20) -> list[dict[str, Any]]:
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


carry = build
