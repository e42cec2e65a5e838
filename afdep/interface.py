"""The interface of a Buffer on either target: the calls of an exchange, and what an FFN rank is given.

A rank's *memory* is its GPU or, on the simulator, memory of `World.empty`. Arrays are torch tensors of the current GPU
or, on the simulator, numpy arrays (BF16 and FP8 as in `afdep.elements`) and CPU tensors.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep import calls
from afdep.layout import Role
from afdep.shapes import ExchangeShape


@dataclass(frozen=True)
class Received:
    """What an FFN rank received: arrays of the Buffer, overwritten by its next `ffn_receive`.

    On a GPU, work enqueued on the current stream may use them; on the simulator they are filled by `World.run()`.

    Args:
        x: rows [rows, H] of the dispatch dtype, expert-major, sized by the bucket; rows past `expert_offsets[-1]` are
            undefined.
        weights: fp32 [rows], the routing weight of each row; 0 where the sources passed none.
        scales: the scale words of each row [rows, words], of 4 bytes; None for BF16.
        expert_offsets: int32 [experts + 1]: rows of local expert e start at e; its padding (zeros) ends at e + 1.
    """

    x: Any
    weights: Any
    scales: Any | None
    expert_offsets: Any
    _metadata: Any = field(repr=False)
    _rank_prefix: Any = field(repr=False)
    _bucket: int = field(repr=False)

    @property
    def num_tokens(self) -> int:
        """Tokens received, each counted once however many of its experts are here. On a GPU it waits for them."""
        return int(self._on_host(self._rank_prefix)[-1])

    @property
    def source(self) -> NDArray[np.int32]:
        """int32 [expert_offsets[-1], 3] on the host: source rank, token and lane of each row, -1 in a padding row.

        On a GPU it waits for the rows and copies what it needs.
        """
        table = np.full((int(self._on_host(self.expert_offsets)[-1]), 3), -1, np.int32)
        metadata = self._on_host(self._metadata)[: self.num_tokens]
        token, lane = np.nonzero(metadata[:, 2:] >= 0)
        source_id = metadata[token, 0]
        table[metadata[token, 2 + lane]] = np.stack([source_id // self._bucket, source_id % self._bucket, lane], axis=1)
        return table

    def _on_host(self, array: Any) -> NDArray[Any]:
        return np.asarray(array)


class ExchangeBuffer(ABC):
    """One rank's endpoint of the exchanges.

    An Attention rank calls `source_dispatch` and `source_collect` in turn, an FFN rank `ffn_receive` and `ffn_reply`,
    all ranks with the same sequence of buckets. The calls enqueue work, in order, and return.

    Args:
        shape: of the exchanges.
        rank: FFN ranks are [0, F), source s is rank F + s.
    """

    def __init__(self, shape: ExchangeShape, rank: int):
        self.shape = shape
        self.layout = shape.layout
        self.rank = rank
        self.role: Role = shape.layout.role(rank)

    @abstractmethod
    def source_dispatch(
        self, x: Any, topk_idx: Any, topk_weights: Any = None, bucket: int | None = None, num_tokens: Any = None
    ) -> None:
        """Send every token once to each FFN rank that holds one of its experts.

        The ids and a word of `num_tokens` are read again as replies are collected: they must not change until then.

        Args:
            x: rows [T, H] of BF16; for `fp8` and `fp8-ue8m0` the pair of rows [T, H] of float8_e4m3fn and scale words
                [T, words]: one fp32 for every 128 elements, or four UE8M0 bytes an int32.
            topk_idx: int32 or int64 [T, K]: global expert ids, distinct within a token; -1 is no route.
            topk_weights: fp32 [T, K], handed to the FFN ranks; None stands for zeros.
            bucket: the most tokens a source has in this exchange, T <= bucket <= capacity, the same on every rank; the
                capacity by default.
            num_tokens: how many of the T rows count, all by default; or int32 of one element in the rank's memory, read
                when the rows are sent and again when replies are collected. The rows collected past it are zeros.

        Raises:
            OrderError: not an Attention rank, or the last exchange was not collected.
            DeadBufferError: these Buffers failed or were closed before.
            CaptureError: on a GPU, the first exchange under capture.
            ShapeError, IdTypeError, CapacityError: an argument; the peers are told.
        """

    @abstractmethod
    def source_collect(self, view: bool = False) -> Any:
        """Collect the reply to each token.

        Args:
            view: must be False; this build collects by copy.

        Returns:
            BF16 [T, H]: the sum of the FFN ranks' replies, zeros for a token without a route. T is `num_tokens`, or,
                where that is a word, the rows of x and the bucket at most.

        Raises:
            OrderError: nothing was dispatched.
            DeadBufferError, CaptureError: as `source_dispatch`.
            ShapeError: view=True.
        """

    @abstractmethod
    def ffn_receive(self, bucket: int | None = None) -> Received:
        """Receive the rows of this rank's experts.

        Args:
            bucket: as the sources pass it; the capacity by default.

        Raises:
            OrderError: not an FFN rank, or the last exchange was not replied to.
            DeadBufferError, CaptureError: as `source_dispatch`.
            ShapeError, CapacityError: the bucket; the peers are told.
        """

    @abstractmethod
    def ffn_reply(self, received: Any, out: Any) -> None:
        """Reply to every received token with the sum of its rows.

        Args:
            received: what `ffn_receive` returned.
            out: BF16 [rows, H], a row for each of `received.x`, which it may be. Weights are the caller's business.

        Raises:
            OrderError: `received` is not the last received one.
            DeadBufferError, CaptureError: as `source_dispatch`.
            ShapeError: another shape or dtype.
        """

    @abstractmethod
    def _require_alive(self) -> None:
        """Raise DeadBufferError where nothing more can be exchanged."""

    def _require(self, role: Role, in_order: bool, call: str, other: str) -> None:
        """Refuse a call of the other role, out of order or on a dead Buffer."""
        self._require_alive()
        calls.require_role(self.layout, self.rank, role, call)
        calls.require_order(self.rank, in_order, call, other)
