"""The GPUs of this machine, asked without torch and without a context of ours."""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PROBE = """
import ctypes, json
driver = ctypes.CDLL("libcuda.so.1")
def ask(name, kind, *arguments):
    found = kind()
    status = getattr(driver, name)(ctypes.byref(found), *arguments)
    assert status == 0, f"{name}: CUDA error {status}"
    return found.value
assert (status := driver.cuInit(0)) == 0, f"cuInit: CUDA error {status}"
count = ask("cuDeviceGetCount", ctypes.c_int)
assert count > 0, "the driver shows no GPU"
device, name = ask("cuDeviceGet", ctypes.c_int, 0), ctypes.create_string_buffer(128)
assert driver.cuDeviceGetName(name, 128, device) == 0
print(json.dumps([count, name.value.decode(), ask("cuDeviceGetAttribute", ctypes.c_int, 16, device)]))
"""
"""Attribute 16 is the number of SMs."""

_QUERY = {
    "gpu": "index",
    "gpu_uuid": "uuid",
    "driver": "driver_version",
    "sm_mhz": "clocks.sm",
    "throttle": "clocks_throttle_reasons.active",
    "celsius": "temperature.gpu",
}
"""What `nvidia-smi` is asked of each GPU, by the name that it has in records."""
_LIMIT_S = 20


@dataclass(frozen=True)
class Gpus:
    """The GPUs of this machine: how many, their name, and the SMs of each."""

    count: int
    name: str
    sms: int


def found() -> Gpus | str:
    """The GPUs here, asked in a process of its own; or why there are none."""
    done = subprocess.run([sys.executable, "-P", "-c", _PROBE], capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return f"needs GPUs: {said[-1].strip() if said else f'exit code {done.returncode}'}"
    return Gpus(*json.loads(done.stdout))


def states(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """What each GPU says of itself now: its name for good, driver, clock, temperature and why it may run slower.

    None of it where there is no `nvidia-smi`, or it does not answer.
    """
    tool = shutil.which("nvidia-smi", path=environ.get("PATH", ""))
    if tool is None:
        return []
    command = [tool, f"--query-gpu={','.join(_QUERY.values())}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_LIMIT_S)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [
        dict(zip(_QUERY, (one.strip() for one in row), strict=False)) for row in csv.reader(done.stdout.splitlines())
    ]
    return [{**row, "gpu": int(row["gpu"])} for row in rows if row.get("gpu", "").isdigit()]
