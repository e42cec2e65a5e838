"""A rank's place on the machine: its GPU, and the process group it meets its peers in."""

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from afdep.layout import Layout
from harness.errors import RankError
from harness.session import Session

_HOST_TIMEOUT = timedelta(seconds=120)


def index(rank: int, ranks_per_gpu: int) -> int:
    """The GPU of a rank: FFN ranks come first, so with ranks side by side the roles share as few GPUs as they can."""
    return rank // ranks_per_gpu


def join(session: Session, rank: int) -> dict[str, Any]:
    """Take this rank's GPU and join the others; collective.

    Returns:
        What is worth keeping of both, as JSON takes it.

    Raises:
        RankError: fewer GPUs than the plan's placement needs.
    """
    layout, sharing = Layout.parse(session.row.layout), session.plan.backend.ranks_per_gpu
    needed, found = -(-layout.num_ranks // sharing), torch.cuda.device_count()
    if found < needed:
        raise RankError({rank: f"{layout} with {sharing} a GPU needs {needed} GPUs, this machine shows {found}"})
    torch.cuda.set_device(index(rank, sharing))
    dist.init_process_group("gloo", timeout=_HOST_TIMEOUT)
    name = torch.cuda.get_device_name()
    return {"device": name, "gpu": index(rank, sharing), "gpus": found, "torch": str(torch.__version__)}
