"""The arms built here, on one rank: a Buffer of the plan's shape."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist

from afdep import proof, reference
from afdep.cuda import Buffer
from afdep.cuda.memory import to_device, to_numpy
from afdep.elements import to_bf16
from afdep.proof import checks
from harness.config import DeviceTiming
from harness.device import gpu, proving, timing
from harness.device.endpoint import Measurement
from harness.identity import Identity
from harness.plan import Cell
from harness.session import Session


def open_end(session: Session, rank: int) -> "OwnEnd":
    """This rank's end; collective."""
    return OwnEnd(session, gpu.join(session, rank))


class OwnEnd:
    """One rank's Buffer, as `harness.device.endpoint.Endpoint` says."""

    def __init__(self, session: Session, facts: Mapping[str, Any]):
        row, exchange, device = session.row, session.plan.exchange, session.plan.backend.device
        assert device is not None
        self._session = session
        self._buffer = Buffer(
            None,
            layout=row.layout,
            **exchange.shape_of(row),
            arm=session.arm.name,
            timeout_s=float(device.wait_timeout_s),
            maker=_maker(device),
        )
        identity = self._buffer.identity
        self.role: str = self._buffer.role
        self.identity = Identity.from_report(identity)
        self.registered_bytes: int | None = self._buffer.registered_bytes
        made = {"windows": identity["windows"], "construction_s": round(self._buffer.construction_s, 3)}
        self.facts: Mapping[str, Any] = {**facts, **made}

    def prove(self, loads: Sequence[Any], cell: Cell) -> None:
        """Prove exchanges of these routes bit for bit."""
        proving.prove(self._buffer, loads, cell.bucket, self._session.plan.exchange.seed)
        dist.barrier()

    def time(self, load: Any, cell: Cell) -> Measurement:
        """Time exchanges of these routes.

        FFN ranks pass on what they received (FP8: one fixed BF16 buffer), and the sources' last result is compared with
        the reference.

        Raises:
            MismatchError: the timed exchanges delivered something else than the reference.
        """
        plan = self._session.plan
        if self.role == "ffn":
            return timing.measure(plan.backend, plan.exchange.mode, self._ffn_exchange(cell.bucket))
        sent = proof.draw(self._buffer, load, plan.exchange.seed)[self._buffer.rank - self._buffer.layout.ffn_ranks]
        y = torch.empty((cell.tokens, self._buffer.shape.hidden), dtype=torch.bfloat16, device="cuda")
        measured = timing.measure(plan.backend, plan.exchange.mode, self._source_exchange(sent, y, cell.bucket))
        checks.check_collected(to_numpy(y), self._passed_on(sent), rank=self._buffer.rank)
        return measured

    def close(self) -> None:
        """Give the windows back; collective."""
        self._buffer.close()

    def _source_exchange(self, sent: reference.Sent, y: Any, bucket: int) -> timing.Repeatable:
        x, ids, buffer = proving.uploaded(sent), to_device(sent.topk_idx), self._buffer

        def exchange() -> None:
            buffer.source_dispatch(x, ids, bucket=bucket)
            buffer.source_collect(out=y)

        return timing.Repeatable(exchange, buffer.synchronize)

    def _ffn_exchange(self, bucket: int) -> timing.Repeatable:
        buffer = self._buffer
        # A symmetric rank has room for its own role's tokens as well.
        rows = buffer.shape.max_received_rows(bucket) * buffer.layout.num_ranks
        fixed = self._ones(rows) if buffer.shape.dtype.groups_per_word else None

        def exchange() -> None:
            received = buffer.ffn_receive(bucket=bucket)
            buffer.ffn_reply(received, received.x if fixed is None else fixed[: len(received.x)])

        return timing.Repeatable(exchange, buffer.synchronize)

    def _ones(self, rows: int) -> Any:
        return torch.ones((rows, self._buffer.shape.hidden), dtype=torch.bfloat16, device="cuda")

    def _passed_on(self, sent: reference.Sent) -> Any:
        """What a source must collect when FFN ranks pass on what they receive, or ones for FP8."""
        shape = self._buffer.shape
        x = sent.x if sent.scales is None else to_bf16(np.ones((len(sent.x), shape.hidden), np.float32))
        ranks = shape.layout.ffn_ranks
        return reference.combine(
            x, sent.topk_idx, num_ffn_ranks=ranks, num_experts=shape.num_experts, expert=lambda rows, _: rows
        )


def _maker(device: DeviceTiming) -> Literal["symmetric", "ipc"] | None:
    makers: dict[str, Literal["symmetric", "ipc"]] = {"symmetric": "symmetric", "ipc": "ipc"}
    return makers.get(device.windows)
