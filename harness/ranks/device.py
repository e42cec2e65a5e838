"""The ranks of a batch on GPUs: this process is one of them, with a Buffer of each arm that is built here."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from harness.core.identity import Identity
from harness.core.worker import Session
from harness.errors import RankError
from harness.ranks import contract, external, proving, timing
from harness.ranks.cells import Cell
from harness.ranks.group import Endpoint, Group, Measurement
from harness.study import Edit, VoidError

_HOST_TIMEOUT = timedelta(seconds=60)
_EXTERNAL = {"nccl": external.open_nccl, "deepep": external.open_deepep}


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
        end: Endpoint = _EXTERNAL.get(what.arm, _open_buffer)(self, what)
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


make = DeviceGroup
"""The group of a process."""


def _open_buffer(group: DeviceGroup, what: Cell) -> "DeviceEnd":
    device = what.backend.device
    assert device is not None
    built = contract.built("cuda", group.library)
    buffer = group.buffer(
        layout=what.row.layout,
        **what.exchange.shape_of(what.row),
        arm=what.arm,
        timeout_s=float(device.wait_timeout_s),
        maker=None if device.windows == "auto" else device.windows,
    )
    return DeviceEnd(buffer, what, built)


class DeviceEnd:
    """One rank's Buffer, as `harness.ranks.group.Endpoint` says."""

    loads = 1

    def __init__(self, buffer: Any, what: Cell, built: Mapping[str, Any]):
        self._buffer, self._what = buffer, what
        identity = buffer.identity
        self.roles: Mapping[int, str] = {buffer.rank: str(buffer.role)}
        self.identity = Identity.from_report(identity)
        self.registered_bytes: int | None = buffer.registered_bytes
        self.facts: Mapping[str, Any] = {
            **built,
            "windows": identity["windows"],
            "construction_s": round(buffer.construction_s, 3),
        }

    def prove(self, loads: Sequence[Any], bucket: int) -> None:
        """Prove exchanges of these routes bit for bit."""
        proving.prove(self._buffer, loads, bucket, self._what.exchange.seed)
        dist.barrier()

    def time(self, loads: Sequence[Any], bucket: int) -> Measurement:
        """Time exchanges of these routes.

        FFN ranks pass on what they received (FP8: one fixed BF16 buffer), and the sources' last result is compared with
        the reference.

        Raises:
            MismatchError: the timed exchanges delivered something else than the reference.
        """
        buffer, exchange = self._buffer, self._what.exchange
        if buffer.role == "ffn":
            return timing.measure(self._what.backend, exchange.mode, buffer.rank, self._ffn_exchange(bucket))
        tree = contract.modules()
        sent = tree.payload.draw(buffer, loads[0], exchange.seed)[buffer.rank - buffer.layout.ffn_ranks]
        y = torch.empty((len(sent.x), buffer.shape.hidden), dtype=torch.bfloat16, device="cuda")
        one = self._source_exchange(sent, y, bucket)
        measured = timing.measure(self._what.backend, exchange.mode, buffer.rank, one)
        tree.checks.check_collected(contract.on_gpus().memory.to_numpy(y), self._passed_on(sent), rank=buffer.rank)
        return measured

    def close(self) -> None:
        """Give the windows back; collective."""
        self._buffer.close()

    def _source_exchange(self, sent: Any, y: Any, bucket: int) -> timing.Repeatable:
        x, ids, buffer = proving.uploaded(sent), contract.on_gpus().memory.to_device(sent.topk_idx), self._buffer

        def exchange() -> None:
            buffer.source_dispatch(x, ids, bucket=bucket)
            buffer.source_collect(out=y)

        return timing.Repeatable(exchange, buffer.synchronize)

    def _ffn_exchange(self, bucket: int) -> timing.Repeatable:
        buffer = self._buffer
        # A symmetric rank has room for its own role's tokens as well.
        rows = buffer.shape.max_received_rows(bucket) * buffer.layout.num_ranks
        fixed = None
        if buffer.shape.dtype.groups_per_word:
            fixed = torch.ones((rows, buffer.shape.hidden), dtype=torch.bfloat16, device="cuda")

        def exchange() -> None:
            received = buffer.ffn_receive(bucket=bucket)
            buffer.ffn_reply(received, received.x if fixed is None else fixed[: len(received.x)])

        return timing.Repeatable(exchange, buffer.synchronize)

    def _passed_on(self, sent: Any) -> Any:
        """What a source must collect when FFN ranks pass on what they receive, or ones for FP8."""
        shape, tree = self._buffer.shape, contract.modules()
        ones = np.ones((len(sent.x), shape.hidden), np.float32)
        x = sent.x if sent.scales is None else tree.elements.to_bf16(ones)
        ranks = shape.layout.ffn_ranks
        return tree.reference.combine(
            x, sent.topk_idx, num_ffn_ranks=ranks, num_experts=shape.num_experts, expert=lambda rows, _: rows
        )
