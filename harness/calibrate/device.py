"""Runs the probes on this machine, a process a group, and reads what they print."""

import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.errors import CalibrationError
from harness.records.calibrations import CalibrationReading, CalibrationRun, Measurement

GROUPS = ("core", "memory", "launch", "first_use", "link")
GROUP_TIMEOUT_S = 20
"""Of a group's process, with the start of CUDA; a group takes a few seconds."""
NO_GPU = 3
"""Exit status of the program where there is no GPU."""

_DRIVER = Path("/proc/driver/nvidia/version")
_MACHINE: Mapping[str, type] = {
    "device": str,
    "gpus": int,
    "cuda_driver": int,
    "cuda_runtime": int,
    "most_sm_mhz": float,
    "memory_mhz": float,
}

Run = Callable[[str], "Output"]


@dataclasses.dataclass(frozen=True)
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


def runner(program: Path, timeout_s: int = GROUP_TIMEOUT_S) -> Run:
    """Runs the program for a group, each in a process of its own, which is ended after `timeout_s`."""

    def run(group: str) -> Output:
        try:
            done = subprocess.run([str(program), group], capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired as expired:
            return Output(_text(expired.stdout).splitlines(), None, f"no end within {timeout_s} s")
        return Output(done.stdout.splitlines(), done.returncode, (done.stderr.splitlines() or [""])[-1])

    return run


def measure(run: Run, command: str, probes_hash: str, now: Callable[[], datetime]) -> Measurement:
    """Run every group of probes; a group that fails leaves a void reading, and the others go on.

    Raises:
        CalibrationError: no GPU, or no group that described the machine.
    """
    readings: list[CalibrationReading] = []
    machine: dict[str, Any] | None = None
    for group in GROUPS:
        output = run(group)
        if output.status == NO_GPU:
            raise CalibrationError(f"calibrate: expected a GPU, received {output.error or 'none'}.")
        found = list(parsed(group, output))
        machine = machine or next((one for one in found if isinstance(one, dict)), None)
        readings += [one for one in found if isinstance(one, CalibrationReading)]
    if machine is None:
        reasons = "; ".join(f"{one.probe}: {one.void}" for one in readings if one.void)
        raise CalibrationError(f"calibrate: expected readings, received {reasons}.")
    created = now().isoformat(timespec="seconds")
    run_of = CalibrationRun(command=command, created=created, probes_hash=probes_hash, driver=driver(), **machine)
    return Measurement(run_of, tuple(readings))


def driver(path: Path = _DRIVER) -> str:
    """The version of the kernel's driver, or nothing where the machine does not tell."""
    try:
        words = path.read_text(encoding="utf-8").split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit() and "." in word), "")


def parsed(group: str, output: Output) -> Iterator[dict[str, Any] | CalibrationReading]:
    """The readings of a group, behind the description of the machine where it gave one."""
    for line in output.lines:
        yield _line(group, line)
    if output.status != 0:
        ending = output.error or "nothing"
        yield void(group, f"ended with status {output.status}: {ending}" if output.status is not None else ending)


def _line(group: str, line: str) -> dict[str, Any] | CalibrationReading:
    try:
        content = json.loads(line)
        if "device" in content:
            return {name: kind(content[name]) for name, kind in _MACHINE.items()}
        if "void" in content:
            return void(content["probe"], content["void"])
        return CalibrationReading(**{**content, "samples": tuple(map(float, content["samples"])), "void": None})
    except (ValueError, TypeError, KeyError) as error:
        return void(group, f"unreadable: {line[:80]!r}: {type(error).__name__}")


def void(probe: str, reason: str) -> CalibrationReading:
    """The reading of a probe that read nothing."""
    return CalibrationReading(probe=probe, variant="", ctas=0, bytes=0, unit="", samples=(), void=reason)


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
