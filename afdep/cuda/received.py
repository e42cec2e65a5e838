"""What an FFN rank received, on its GPU."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from afdep.abi import ReceivedStruct
from afdep.cuda.counts import HostCounts, PendingCounts
from afdep.cuda.inputs import element
from afdep.cuda.memory import tensor, to_numpy
from afdep.interface import Received
from afdep.shapes import ExchangeShape


@dataclass(frozen=True)
class DeviceReceived(Received):
    """The same as tensors, with the counts of rows on the host where `ffn_receive` was asked for them."""

    _counts: PendingCounts | None = field(repr=False)

    @property
    def host_counts(self) -> HostCounts | None:
        """The counts of this exchange on the host where `ffn_receive` was asked for them, else None; waits for them.

        Raises:
            What `Buffer.synchronize` raises of an exchange that failed.
        """
        return None if self._counts is None else self._counts.get()

    def _on_host(self, array: Any) -> np.ndarray[Any, Any]:
        return to_numpy(array)


@dataclass(frozen=True)
class HostReceived:
    """A copy of it on the host, as `afdep.proof.checks` takes it."""

    x: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any]
    scales: np.ndarray[Any, Any] | None
    expert_offsets: np.ndarray[Any, Any]
    source: np.ndarray[Any, Any]


def on_host(received: DeviceReceived) -> HostReceived:
    """Copy to the host: the rows up to the last offset, and for each its source rank, token and lane (-1: padding)."""
    offsets = to_numpy(received.expert_offsets)
    rows = int(offsets[-1])
    scales = None if received.scales is None else to_numpy(received.scales[:rows])
    weights = to_numpy(received.weights[:rows])
    return HostReceived(to_numpy(received.x[:rows]), weights, scales, offsets, received.source)


def received_views(
    owner: object, found: ReceivedStruct, shape: ExchangeShape, bucket: int, counts: PendingCounts | None
) -> DeviceReceived:
    """Tensors over what the native library received into; they keep `owner` alive."""
    rows, words = int(found.max_rows), shape.dtype.scale_bytes(shape.hidden) // 4
    layout = shape.layout
    return DeviceReceived(
        x=tensor(owner, found.rows, (rows, shape.hidden), element(shape.dtype)),
        weights=tensor(owner, found.row_weights, (rows,), torch.float32),
        scales=tensor(owner, found.row_scales, (rows, words), torch.int32) if words else None,
        expert_offsets=tensor(owner, found.expert_offsets, (shape.experts_per_rank + 1,), torch.int32),
        _metadata=tensor(owner, found.source_metadata, (layout.attention_ranks * bucket, shape.top_k + 2), torch.int32),
        _rank_prefix=tensor(owner, found.rank_prefix, (layout.num_ranks,), torch.int32),
        _bucket=bucket,
        _counts=counts,
    )
