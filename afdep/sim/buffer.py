"""The Buffer of one simulated rank, on numpy arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep import calls
from afdep.abi import ReceivedStruct
from afdep.errors import OrderError, ShapeError
from afdep.interface import ExchangeBuffer, Received
from afdep.reference import BF16
from afdep.sim import inputs
from afdep.sim.group import Group
from afdep.sim.simulator import view

Array = NDArray[Any]


class SimBuffer(ExchangeBuffer):
    """The endpoint of one simulated rank. `World.buffer(rank)` hands them out; `World.run()` lets their work happen.

    Arguments are read when they are passed, but for arrays of `World.empty`: these are read when the work runs. So are
    replies that are `received.x` itself or what `World.expert_transform` returned. Replies made on the host answer rows
    that are there, so `World.run()` comes first, and they may leave out the rows past `expert_offsets[-1]`.
    """

    def __init__(self, group: Group, rank: int):
        super().__init__(group.shape, rank)
        self._group = group
        self._session = group.session
        self._simulator = group.simulator
        self._tokens: int | None = None
        self._routes: list[Array | None] = []
        self._received: Received | None = None
        self._received_at = 0

    @property
    def pending(self) -> Received | None:
        """What an FFN rank received and has not replied to."""
        return self._received

    def source_dispatch(
        self, x: Any, topk_idx: Any, topk_weights: Any = None, bucket: int | None = None, num_tokens: Any = None
    ) -> None:
        self._require("attention", self._tokens is None, "source_dispatch", "source_collect")
        bucket = self.shape.capacity if bucket is None else bucket
        with self._group.refusing(self.rank):
            sent = inputs.outgoing(self.shape, x, topk_idx, topk_weights, bucket, num_tokens)
            self._group.begin(self.rank, bucket)
        self._tokens = sent.tokens
        memory = [self._on_device(array) for array in (sent.x, sent.scales, sent.ids, sent.weights, sent.num_tokens)]
        self._routes = [memory[2], memory[4]]
        addresses = [None if array is None else array.ctypes.data for array in memory]
        self._simulator.native.source_dispatch(
            self._group.handle,
            self.rank,
            addresses[0],
            addresses[1],
            addresses[2],
            sent.ids.dtype.itemsize,
            addresses[3],
            sent.tokens,
            addresses[4],
            bucket,
        )

    def source_collect(self, view: bool = False) -> Array:
        self._require("attention", self._tokens is not None, "source_collect", "source_dispatch")
        calls.refuse_view(view)
        tokens = self._tokens or 0
        self._tokens = None
        self._group.open_ranks.discard(self.rank)
        block = self._simulator.allocate(self.rank, max(1, tokens * self.shape.hidden * 2))
        self._session.hold([block, *self._routes])  # the sum follows the routes
        self._routes = []
        self._simulator.native.source_collect(self._group.handle, self.rank, block.address)
        y = block.array((tokens, self.shape.hidden), BF16)
        self._group.deliver(y)
        return y

    def ffn_receive(self, bucket: int | None = None) -> Received:
        self._require("ffn", self._received is None, "ffn_receive", "ffn_reply")
        bucket = self.shape.capacity if bucket is None else bucket
        with self._group.refusing(self.rank):
            self.shape.check_bucket(0, bucket)
            self._group.begin(self.rank, bucket)
        self._received_at = self._session.runs
        native = self._simulator.receive(self._group.handle, self.rank, bucket)
        self._received = self._views(native, bucket)
        return self._received

    def ffn_reply(self, received: Any, out: Any) -> None:
        self._require("ffn", received is not None and self._received is received, "ffn_reply", "ffn_receive")
        replies = inputs.replies(self.shape, out, len(received.x))
        self._require_arrived(received, replies)
        self._received = None
        self._group.open_ranks.discard(self.rank)
        address = replies.ctypes.data
        if not self._session.owns(self.rank, address):
            block = self._simulator.allocate(self.rank, max(1, len(received.x) * self.shape.hidden * 2))
            block.array((len(received.x), self.shape.hidden), BF16)[: len(replies)] = replies
            self._session.hold([block])
            address = block.address
        self._session.hold([replies])
        self._simulator.native.ffn_reply(self._group.handle, self.rank, address)

    def _require_arrived(self, received: Received, replies: Array) -> None:
        """A reply made on the host answers rows that are there: they arrive in `World.run()`."""
        arrived = self._session.runs > self._received_at
        if not arrived and not self._session.owns(self.rank, replies.ctypes.data):
            raise OrderError(
                f"ffn_reply on rank {self.rank}: expected World.run() behind ffn_receive, received a reply without it.",
                "Rows arrive in run(): receive, run, compute, reply, run. On the device use World.expert_transform.",
            )
        rows = int(received.expert_offsets[-1]) if arrived else 0
        if len(replies) < rows:
            raise ShapeError("out", f"{rows} rows or more", len(replies), "Reply with a row for each received row.")

    def _require_alive(self) -> None:
        self._group.require_alive()

    def _on_device(self, array: Array | None) -> Array | None:
        """An array in this rank's memory, held for the next run: itself, or a copy made now."""
        if array is None:
            return None
        if array.size == 0 or not self._session.owns(self.rank, array.ctypes.data):
            block = self._simulator.allocate(self.rank, max(1, array.nbytes))
            copy = block.array(array.shape, array.dtype)
            copy[...] = array
            array = copy
        self._session.hold([array])
        return array

    def _views(self, native: ReceivedStruct, bucket: int) -> Received:
        shape, ranks = self.shape, self.shape.layout.num_ranks
        rows = int(native.max_rows)
        words = shape.dtype.scale_bytes(shape.hidden) // 4

        def on(address: int, dims: tuple[int, ...], dtype: Any) -> Array:
            return view(self._simulator, address, dims, dtype)

        return Received(
            x=on(native.rows, (rows, shape.hidden), inputs.element(shape.dtype)),
            weights=on(native.row_weights, (rows,), np.float32),
            scales=on(native.row_scales, (rows, words), np.uint32) if words else None,
            expert_offsets=on(native.expert_offsets, (shape.experts_per_rank + 1,), np.int32),
            _metadata=on(native.source_metadata, (shape.layout.attention_ranks * bucket, shape.top_k + 2), np.int32),
            _rank_prefix=on(native.rank_prefix, (ranks,), np.int32),
            _bucket=bucket,
        )
