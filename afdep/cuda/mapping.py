"""Memory of this rank that its peers map, and theirs as this process addresses it: CUDA IPC handles."""

from ctypes import create_string_buffer
from typing import Any

import torch.distributed as dist

from afdep.cuda import agreement
from afdep.cuda.native import IPC_BYTES, CudaLibrary
from afdep.device_errors import DeviceError


class Mapping:
    """A block on every rank of a host; making it is collective, and never raises on one rank alone.

    Args:
        library: of the rank.
        group: of the ranks.
        num_bytes: of each block, zeroed.
    """

    def __init__(self, library: CudaLibrary, group: Any, num_bytes: int):
        self._library, self._group = library, group
        self._rank = dist.get_rank(group)
        self.problem: str | None = None
        """What failed on this rank, None where nothing did."""
        handle = create_string_buffer(IPC_BYTES)
        self._own = library.cuda_ipc_allocate(num_bytes, handle)
        if not self._own:
            self.problem = library.reason()
        handles = agreement.gathered(group, handle.raw if self._own else None)
        self.addresses = [0] * len(handles)
        """Of each rank's block, 0 where it is not mapped."""
        if None not in handles:
            self._open(handles)

    def release(self) -> None:
        """Unmap the peers' blocks and give back the own one, when nobody maps it any more; collective.

        Raises:
            DeviceError: CUDA refused; the peers have been met.
        """
        failed = [self._library.reason() for address in self._of_peers() if self._library.cuda_ipc_close(address) != 0]
        dist.barrier(self._group)
        if self._own and self._library.cuda_ipc_free(self._own) != 0:
            failed.append(self._library.reason())
        if failed:
            raise DeviceError(failed[0])

    def _open(self, handles: list[bytes]) -> None:
        self.addresses[self._rank] = self._own
        for peer, raw in enumerate(handles):
            if peer == self._rank or self.problem is not None:
                continue
            self.addresses[peer] = self._library.cuda_ipc_open(create_string_buffer(raw, IPC_BYTES)) or 0
            if not self.addresses[peer]:
                self.problem = self._library.reason()

    def _of_peers(self) -> list[int]:
        return [address for peer, address in enumerate(self.addresses) if peer != self._rank and address]
