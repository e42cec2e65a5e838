"""Where all ranks meet ahead of a replay that is timed from a common start."""

import os
from functools import cache
from typing import Any

import torch
import torch.distributed as dist


def meet(ranks_per_gpu: int) -> None:
    """Wait until every rank is here and its GPU idle; collective.

    Hosts leave a barrier of the process group tens of microseconds apart, which a replay of few exchanges would count.
    Where each rank has a GPU of its own the GPUs meet once more, and a host goes on as its own GPU has met the others'.
    """
    torch.cuda.synchronize()
    dist.barrier()
    if ranks_per_gpu == 1:
        _gpus().barrier(channel=0)
        torch.cuda.synchronize()


@cache
def _gpus() -> Any:
    """The handle of a small tensor in torch's symmetric memory; its making is collective."""
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    from torch.distributed import _symmetric_memory as symmetric_memory

    device = torch.device("cuda", torch.cuda.current_device())
    memory = symmetric_memory.empty(64, dtype=torch.int32, device=device)
    memory.zero_()
    torch.cuda.synchronize()
    return symmetric_memory.rendezvous(memory, dist.group.WORLD)
