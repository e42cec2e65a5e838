"""A rank's place on the machine: its GPU, and the process group it meets its peers in."""

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from afdep.layout import Layout
from harness import colocation
from harness.errors import RankError
from harness.session import Session

_HOST_TIMEOUT = timedelta(seconds=120)


def join(session: Session, rank: int) -> dict[str, Any]:
    """Take this rank's GPU and join the others; collective.

    Returns:
        What is worth keeping of both, as JSON takes it.

    Raises:
        RankError: fewer GPUs than the plan's placement needs.
    """
    started = time.monotonic()
    seats = colocation.planned(Layout.parse(session.row.layout), session.plan.backend.ranks_per_gpu).seats
    needed, found = 1 + max(seat.gpu for seat in seats), torch.cuda.device_count()
    if found < needed:
        raise RankError({rank: f"{session.row.layout} as placed needs {needed} GPUs, this machine shows {found}"})
    torch.cuda.set_device(seats[rank].gpu)
    dist.init_process_group("gloo", timeout=_HOST_TIMEOUT)
    name = torch.cuda.get_device_name()
    join_s = round(time.monotonic() - started, 3)
    place = {"device": name, "gpu": seats[rank].gpu, "gpus": found}
    return {**place, "torch": str(torch.__version__), "join_s": join_s}
