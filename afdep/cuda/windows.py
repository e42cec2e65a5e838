"""Windows: memory that every rank of a group addresses. One interface, two makers.

Torch's symmetric memory serves ranks with a GPU each; its rendezvous refuses two ranks on one GPU, and there memory is
mapped by CUDA IPC handles. Neither uses multicast.
"""

from collections.abc import Callable, Sequence
from ctypes import create_string_buffer
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist

from afdep.cuda.native import IPC_BYTES, CudaLibrary

Maker = Literal["symmetric", "ipc"]


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


def suitable_maker(group: Any) -> Maker:
    """`symmetric` where every rank of the group has a GPU of its own, else `ipc`."""
    own = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    gpus: list[str] = [""] * dist.get_world_size(group)
    dist.all_gather_object(gpus, own, group)
    return "symmetric" if len(set(gpus)) == len(gpus) else "ipc"


def make(library: CudaLibrary, group: Any, num_bytes: int, maker: Maker) -> Windows:
    """A window of that many bytes on every rank's current device; collective.

    Raises:
        DeviceError: no memory, or a peer's window that cannot be mapped.
    """
    made = _symmetric(group, num_bytes) if maker == "symmetric" else _mapped(library, group, num_bytes)
    dist.barrier(group)
    return made


def _symmetric(group: Any, num_bytes: int) -> Windows:
    from torch.distributed import _symmetric_memory as symmetric_memory

    memory = symmetric_memory.empty(
        num_bytes, dtype=torch.uint8, device=torch.device("cuda", torch.cuda.current_device())
    )
    memory.zero_()
    torch.cuda.synchronize()
    handle = symmetric_memory.rendezvous(memory, group if group is not None else dist.group.WORLD)
    held = [memory, handle]
    return Windows("symmetric", [int(address) for address in handle.buffer_ptrs], held.clear)


def _mapped(library: CudaLibrary, group: Any, num_bytes: int) -> Windows:
    handle = create_string_buffer(IPC_BYTES)
    own = library.pointer(library.cuda_ipc_allocate(num_bytes, handle))
    handles: list[bytes] = [b""] * dist.get_world_size(group)
    dist.all_gather_object(handles, handle.raw, group)
    rank = dist.get_rank(group)
    addresses = [
        own if peer == rank else library.pointer(library.cuda_ipc_open(create_string_buffer(raw, IPC_BYTES)))
        for peer, raw in enumerate(handles)
    ]

    def release() -> None:
        for peer, address in enumerate(addresses):
            if peer != rank:
                library.check(library.cuda_ipc_close(address))
        dist.barrier(group)
        library.check(library.cuda_ipc_free(own))

    return Windows("ipc", addresses, release)
