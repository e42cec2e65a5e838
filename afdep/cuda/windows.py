"""Windows: memory that every rank of a group addresses. One interface, two makers.

Torch's symmetric memory serves ranks with a GPU each; its rendezvous refuses two ranks on one GPU, and there memory is
mapped by CUDA IPC handles. Neither uses multicast. A maker that fails on one rank is given up by all.
"""

import logging
import socket
from collections.abc import Callable, Sequence
from ctypes import create_string_buffer
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from afdep.cuda import agreement, makers
from afdep.cuda.makers import Maker, Place
from afdep.cuda.native import IPC_BYTES, CudaLibrary
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
        made = _attempt(library, group, num_bytes, maker)
        if isinstance(made, Windows):
            return made
        problem = made
        _log_fall_back(maker, problem)
    raise DeviceError(problem)


def _attempt(library: CudaLibrary, group: Any, num_bytes: int, maker: Maker) -> Windows | str:
    """The windows, or why there are none: the same on every rank."""
    made = _symmetric(group, num_bytes) if maker == "symmetric" else _mapped(library, group, num_bytes)
    problem = agreement.first_problem(group, None if isinstance(made, Windows) else made)
    if problem is None:
        return made
    if isinstance(made, Windows):
        made.release()
    return problem


def _log_fall_back(maker: Maker, problem: str) -> None:
    _LOG.warning("windows: %s memory does not serve here (%s); another maker is tried", maker, problem)


def _own_gpu() -> str:
    return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)


def _symmetric(group: Any, num_bytes: int) -> Windows | str:
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
        return str(error).splitlines()[0]
    return Windows("symmetric", [int(address) for address in held[1].buffer_ptrs], held.clear)


def _mapped(library: CudaLibrary, group: Any, num_bytes: int) -> Windows | str:
    handle = create_string_buffer(IPC_BYTES)
    own = library.cuda_ipc_allocate(num_bytes, handle)
    problem = None if own else library.reason()
    handles = agreement.gathered(group, handle.raw if own else None)
    rank, addresses = dist.get_rank(group), [0] * len(handles)
    for peer, raw in enumerate(handles):
        if problem is not None or raw is None:
            break
        addresses[peer] = own if peer == rank else library.cuda_ipc_open(create_string_buffer(raw, IPC_BYTES))
        if not addresses[peer]:
            problem = library.reason()

    def release() -> None:
        for peer, address in enumerate(addresses):
            if peer != rank and address:
                library.check(library.cuda_ipc_close(address))
        dist.barrier(group)  # memory is given back when nobody maps it any more
        if own:
            library.check(library.cuda_ipc_free(own))

    if problem is None and None not in handles:
        return Windows("ipc", addresses, release)
    release()
    return problem or "a peer has no memory"
