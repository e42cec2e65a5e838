"""The GPUs of this machine, asked without torch and without a context of ours; which rank runs on which.

A transport CTA takes a whole SM and spins for its peers. A share under MPS bounds how many SMs a rank may use; nothing
says that two shares do not overlap. On an H200 four ranks with a quarter each, and three with a quarter each, kept each
other's kernels from starting. So whatever spins on a GPU has to fit every share of it at once. An epilogue that waits
for the end of its main kernel holds SMs as well, but only once all that this kernel awaits is running.
"""

import csv
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from afdep.layout import Layout
from harness.errors import PlacementError

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


@cache
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


@dataclass(frozen=True)
class Seat:
    """A rank's place.

    Args:
        gpu: the index of its GPU.
        percentage: of the GPU's SMs that it may use.
    """

    gpu: int
    percentage: int

    def sms(self, sm_count: int) -> int:
        """SMs that the share comes to: the device gives them in pairs."""
        return sm_count * self.percentage // 100 // 2 * 2 if self.percentage < 100 else sm_count


@dataclass(frozen=True)
class Placement:
    """The seats of a layout's ranks, by rank."""

    seats: tuple[Seat, ...]

    @property
    def ranks_per_gpu(self) -> int:
        """Ranks on the fullest GPU."""
        return max(Counter(seat.gpu for seat in self.seats).values())

    @property
    def is_shared(self) -> bool:
        """Whether a GPU has several ranks, which needs MPS."""
        return self.ranks_per_gpu > 1

    def room(self, sm_count: int) -> int:
        """SMs on which each rank can spin beside those that share its GPU."""
        on_gpu = Counter(seat.gpu for seat in self.seats)
        return min(seat.sms(sm_count) // on_gpu[seat.gpu] for seat in self.seats)


def place(layout: Layout, gpus: int) -> Placement:
    """Ranks over GPUs: one each where they suffice, else the roles apart and each as even as it can be.

    Args:
        layout: the ranks.
        gpus: how many there are.

    Raises:
        PlacementError: no GPU.
    """
    if gpus < 1:
        raise PlacementError(
            f"placement of {layout}: expected 1 GPU or more, received {gpus}.", "Run it on a GPU node."
        )
    ffn_gpus = min(range(1, gpus), key=lambda count: _crowding(layout, count, gpus), default=0)
    used = [rank % ffn_gpus if ffn_gpus else 0 for rank in layout.ffn_rank_ids]
    used += [ffn_gpus + source % (gpus - ffn_gpus) for source in range(layout.attention_ranks)]
    on_gpu = Counter(used)
    # half of a GPU's SMs hold what two ranks spin with
    return Placement(tuple(Seat(gpu, 50 if on_gpu[gpu] == 2 else 100) for gpu in used))


def planned(layout: Layout, ranks_per_gpu: int) -> Placement:
    """The placement of a plan that says how many ranks the fullest GPU has: on as few GPUs as that allows.

    Raises:
        PlacementError: no placement has so many on the fullest.
    """
    placement = place(layout, -(-layout.num_ranks // ranks_per_gpu))
    if placement.ranks_per_gpu != ranks_per_gpu:
        raise PlacementError(
            f"placement of {layout}: expected {ranks_per_gpu} ranks on the fullest GPU, "
            f"received {placement.ranks_per_gpu} on the fewest GPUs.",
            f"Write backend.ranks_per_gpu={placement.ranks_per_gpu}.",
        )
    return placement


def _crowding(layout: Layout, ffn_gpus: int, gpus: int) -> int:
    """Ranks on the fullest GPU when FFN ranks have so many of them."""
    return max(-(-layout.ffn_ranks // ffn_gpus), -(-layout.attention_ranks // (gpus - ffn_gpus)))
