"""Windows: memory that every rank of a group addresses. One interface, two makers.

Torch's symmetric memory serves ranks with a GPU each; its rendezvous refuses two ranks on one GPU, and there memory is
mapped by CUDA IPC handles. No kernel uses multicast; torch is told to set none up, unless the environment says
otherwise. A maker that fails on one rank is given up by all.
"""

import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from afdep.cuda import agreement, makers
from afdep.cuda.makers import Maker, Place
from afdep.cuda.mapping import Mapping
from afdep.cuda.native import CudaLibrary
from afdep.device_errors import DeviceError
from afdep.errors import ShapeError

_LOG = logging.getLogger("afdep")


@dataclass(frozen=True)
class Windows:
    """The windows of a group, zeroed, as this process addresses them.

    Args:
        maker: who made them.
        addresses: of each rank's window.
        release: gives the memory back; every rank calls it, after all have stopped using any window.
    """

    maker: Maker
    addresses: Sequence[int]
    release: Callable[[], None]


def check_maker(maker: object) -> None:
    """Refuse what is no maker.

    Raises:
        ShapeError: neither None nor one of MAKERS.
    """
    if maker is not None and maker not in makers.MAKERS:
        raise ShapeError("maker", " or ".join(makers.MAKERS), maker, "Leave it out to have the suitable one.")


def make(library: CudaLibrary, group: Any, num_bytes: int, wanted: Maker | None = None) -> Windows:
    """A window of that many bytes on every rank's current device; collective.

    Args:
        library: of the rank.
        group: of the ranks.
        num_bytes: of each window, zeroed.
        wanted: the maker to try first; another one serves, and a line is logged, where it cannot.

    Raises:
        DeviceError: no maker can; every rank raises it.
    """
    places = agreement.gathered(group, Place(socket.gethostname(), _own_gpu()))
    if wanted is not None and (objection := makers.objection(wanted, places)):
        _log_fall_back(wanted, objection)
    problem = "no maker of windows serves ranks that share a GPU on several hosts"
    for maker in makers.candidates(wanted, places):
        made = _symmetric(group, num_bytes) if maker == "symmetric" else _mapped(library, group, num_bytes)
        if isinstance(made, Windows):
            return made
        problem = made
        _log_fall_back(maker, problem)
    raise DeviceError(problem)


def _log_fall_back(maker: Maker, problem: str) -> None:
    _LOG.warning("windows: %s memory does not serve here (%s)", maker, problem)


def _own_gpu() -> str:
    return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)


def _symmetric(group: Any, num_bytes: int) -> Windows | str:
    """The windows, or why there are none: the same on every rank."""
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    from torch.distributed import _symmetric_memory as symmetric_memory

    held: list[Any] = []
    problem = None
    try:
        device = torch.device("cuda", torch.cuda.current_device())
        held.append(symmetric_memory.empty(num_bytes, dtype=torch.uint8, device=device))
        held[0].zero_()
        torch.cuda.synchronize()
    except RuntimeError as error:
        problem = str(error).splitlines()[0]
    if failed := agreement.first_problem(group, problem):  # nobody waits in the rendezvous for a rank without memory
        return failed
    try:
        held.append(symmetric_memory.rendezvous(held[0], group if group is not None else dist.group.WORLD))
    except RuntimeError as error:
        problem = str(error).splitlines()[0]
    if failed := agreement.first_problem(group, problem):
        return failed
    return Windows("symmetric", [int(address) for address in held[1].buffer_ptrs], held.clear)


def _mapped(library: CudaLibrary, group: Any, num_bytes: int) -> Windows | str:
    """The same of memory mapped by IPC handles."""
    mapping = Mapping(library, group, num_bytes)
    failed = agreement.first_problem(group, mapping.problem)  # before the first collective of giving back
    if failed is None:
        return Windows("ipc", mapping.addresses, mapping.release)
    try:
        mapping.release()
    except DeviceError as error:
        _LOG.warning("windows: mapped memory was not given back (%s)", error.reason)
    return failed
