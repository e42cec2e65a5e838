"""The arms built here, on one rank: a Buffer of the plan's shape."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from harness.core.identity import Identity
from harness.ranks import contract, proving, timing
from harness.ranks.cells import Cell, DeviceTiming
from harness.ranks.group import Measurement


def open_end(group: Any, what: Cell) -> "OwnEnd":
    """This rank's end; collective."""
    device = what.backend.device
    assert device is not None
    built = contract.built("cuda", group.library)
    buffer = group.buffer(
        layout=what.row.layout,
        **what.exchange.shape_of(what.row),
        arm=what.arm,
        timeout_s=float(device.wait_timeout_s),
        maker=_maker(device),
    )
    return OwnEnd(buffer, what, built)


class OwnEnd:
    """One rank's Buffer, as `harness.ranks.group.Endpoint` says."""

    loads = 1

    def __init__(self, buffer: Any, what: Cell, built: Mapping[str, Any]):
        self._buffer, self._what = buffer, what
        identity = buffer.identity
        self.roles = {buffer.rank: str(buffer.role)}
        self.identity = Identity.from_report(identity)
        self.registered_bytes: int | None = buffer.registered_bytes
        self.facts: Mapping[str, Any] = {
            **{name: built[name] for name in ("code_digest", "compiler") if name in built},
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


def _maker(device: DeviceTiming) -> str | None:
    return None if device.windows == "auto" else device.windows
