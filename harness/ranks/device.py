"""The ranks of a batch on GPUs: this process is one of them."""

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from harness.core.worker import Session
from harness.errors import RankError
from harness.ranks import contract, external, own, proving
from harness.ranks.cells import Cell
from harness.ranks.group import Endpoint, Group
from harness.study import Edit, VoidError

_HOST_TIMEOUT = timedelta(seconds=60)
_EXTERNAL = {"nccl": external.open_nccl, "deepep": external.open_deepep}


def make(session: Session) -> "DeviceGroup":
    """The group of a process."""
    return DeviceGroup(session)


class DeviceGroup(Group):
    """One rank of a batch, which has joined the others."""

    def __init__(self, session: Session):
        super().__init__(session)
        started = time.monotonic()
        rank, job = int(os.environ["RANK"]), session.job
        if torch.cuda.device_count() <= job.gpus[rank]:
            raise RankError(
                f"rank {rank}: expected GPU {job.gpus[rank]}, received {torch.cuda.device_count()} of them.",
                "Look at CUDA_VISIBLE_DEVICES.",
            )
        torch.cuda.set_device(job.gpus[rank])
        torch.zeros((), device="cuda")  # makes the context, so that no trial's time holds it
        dist.init_process_group("gloo", timeout=_HOST_TIMEOUT)
        self.facts: dict[str, Any] = {
            "device": torch.cuda.get_device_name(),
            "gpu": job.gpus[rank],
            "gpus": 1 + max(job.gpus),
            "ranks_per_gpu": max(map(job.gpus.count, job.gpus)),
            "gpu_uuid": str(torch.cuda.get_device_properties(job.gpus[rank]).uuid),
            "torch": str(torch.__version__),
            "join_s": round(time.monotonic() - started, 3),
        }
        session.opened(**self.facts)

    def open(self, what: Cell) -> Endpoint:
        """This rank's end of an arm; collective.

        Raises:
            VoidError: the arm cannot be had here, what was loaded is not what was planned, or another machine.
        """
        started = time.monotonic()
        external = _EXTERNAL.get(what.arm)
        end: Endpoint = external(self, what) if external else own.open_end(self, what)
        planned = what.backend.machine.partition("-")[0].upper()
        if planned not in self.facts["device"].upper():
            raise VoidError(
                f"machine: the plan expects {what.backend.machine}, this rank runs on {self.facts['device']}"
            )
        self.session.opened(open_s=round(time.monotonic() - started, 3))
        return self._opened(what.arm, end)

    def buffer(self, edits: Sequence[Edit] | None = None, **fields: Any) -> Any:
        """A Buffer of the tree's library with some edits, by default the batch's; collective.

        Raises:
            VoidError: the loaded library is another than was built.
        """
        session = self.session
        library = self.built(session.batch.edits if edits is None else edits)
        made = contract.buffer(None if library is None else Path(library.path), **fields)
        expected = library.digest if library else session.plan.trees[session.batch.tree].native_digest("cuda")
        if (found := str(made.identity["digest"])) != expected:
            made.close()
            raise VoidError(f"expected the library {expected}, received {found}")
        return made

    def prove(self, buffer: Any, routes: Sequence[Any], bucket: int) -> None:
        """Prove exchanges of these routes bit for bit; collective. Raises MismatchError."""
        proving.prove(buffer, routes, bucket, seed=0)
