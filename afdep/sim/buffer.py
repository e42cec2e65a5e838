"""The Buffer of one simulated rank: the calls of an exchange on numpy arrays."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep import calls
from afdep.abi import ReceivedStruct
from afdep.errors import OrderError, ShapeError
from afdep.layout import Role
from afdep.reference import BF16
from afdep.sim import inputs
from afdep.sim.group import Group
from afdep.sim.simulator import view

Array = NDArray[Any]


@dataclass(frozen=True)
class Received:
    """What an FFN rank received. Everything is valid from `World.run()` until the next `ffn_receive`.

    Args:
        x: rows [rows, H] of the dispatch dtype, expert-major, sized by the bucket; rows past `expert_offsets[-1]` are
            undefined.
        weights: fp32 [rows], the routing weight of each row; 0 where the sources passed none.
        scales: the scale words of each row [rows, words], or None for BF16.
        expert_offsets: int32 [experts + 1]: rows of local expert e start at e; its padding (zeros) ends at e + 1.
    """

    x: Array
    weights: Array
    scales: Array | None
    expert_offsets: Array
    _metadata: Array = field(repr=False)
    _rank_prefix: Array = field(repr=False)
    _bucket: int = field(repr=False)

    @property
    def num_tokens(self) -> int:
        """Tokens received, each counted once however many of its experts are here."""
        return int(self._rank_prefix[-1])

    @property
    def source(self) -> Array:
        """int32 [expert_offsets[-1], 3]: the source rank, token and lane of each row, -1 in a padding row."""
        table = np.full((int(self.expert_offsets[-1]), 3), -1, np.int32)
        metadata = self._metadata[: self.num_tokens]
        token, lane = np.nonzero(metadata[:, 2:] >= 0)
        source_id = metadata[token, 0]
        table[metadata[token, 2 + lane]] = np.stack([source_id // self._bucket, source_id % self._bucket, lane], axis=1)
        return table


class Buffer:
    """One rank's end of the exchanges. `World.buffer(rank)` hands them out.

    The calls of a rank enqueue work and return; `World.run()` lets it happen. An Attention rank calls
    `source_dispatch` and `source_collect` in turn, an FFN rank `ffn_receive` and `ffn_reply`, all ranks with the same
    sequence of buckets.
    """

    def __init__(self, group: Group, rank: int):
        self._group = group
        self._session = group.session
        self._simulator = group.simulator
        self._shape = group.shape
        self.rank = rank
        self.role = group.shape.layout.role(rank)
        self._tokens: int | None = None
        self._routes: list[Array | None] = []
        self._received: Received | None = None
        self._received_at = 0

    @property
    def pending(self) -> Received | None:
        """What an FFN rank received and has not replied to."""
        return self._received

    def source_dispatch(
        self,
        x: object,
        topk_idx: object,
        topk_weights: object = None,
        bucket: int | None = None,
        num_tokens: object = None,
    ) -> None:
        """Send every token once to each FFN rank that holds one of its experts.

        The ids and `num_tokens` are read again as replies are collected: arrays of `World.empty` must not change until
        then.

        Args:
            x: [T, H] BF16, or (x [T, H] float8_e4m3fn, scale words [T, words]); numpy or CPU torch. This and the ids
                and weights are read now, unless they are arrays of `World.empty`: these are read when they are sent.
            topk_idx: int32 or int64 [T, K]; -1 is no route.
            topk_weights: fp32 [T, K] or None.
            bucket: the token class every rank passes for this exchange; the capacity by default.
            num_tokens: how many of the T rows count, all by default; or int32 of one element, read when the rows are
                sent and again when the replies are collected. The rows collected past it are zeros.

        Raises:
            OrderError: not an Attention rank, or the last exchange was not collected.
            ShapeError, IdTypeError, CapacityError: an argument; the peers are told.
        """
        self._require("attention", self._tokens is None, "source_dispatch", "source_collect")
        bucket = self._shape.capacity if bucket is None else bucket
        with self._group.refusing(self.rank):
            sent = inputs.outgoing(self._shape, x, topk_idx, topk_weights, bucket, num_tokens)
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
        """Collect the reply to each token.

        Args:
            view: must be False; this build collects by copy.

        Returns:
            BF16 [T, H], filled by `World.run()`: the sum of the FFN ranks' replies, zeros for a token without a route.
                T is `num_tokens`, or, where that is an array, the rows of x and the bucket at most.

        Raises:
            OrderError: nothing was dispatched.
            ShapeError: view=True.
        """
        self._require("attention", self._tokens is not None, "source_collect", "source_dispatch")
        if view:
            raise ShapeError("view", "False", view, "Collect by copy; the view is not built.")
        tokens = self._tokens or 0
        self._tokens = None
        self._group.open_ranks.discard(self.rank)
        block = self._simulator.allocate(self.rank, max(1, tokens * self._shape.hidden * 2))
        self._session.hold([block, *self._routes])  # the sum follows the routes
        self._routes = []
        self._simulator.native.source_collect(self._group.handle, self.rank, block.address)
        y = block.array((tokens, self._shape.hidden), BF16)
        self._group.deliver(y)
        return y

    def ffn_receive(self, bucket: int | None = None) -> Received:
        """Receive the rows of this rank's experts.

        Args:
            bucket: as the sources pass it; the capacity by default.

        Raises:
            OrderError: not an FFN rank, or the last exchange was not replied to.
            CapacityError: a bucket above the capacity; the peers are told.
        """
        self._require("ffn", self._received is None, "ffn_receive", "ffn_reply")
        bucket = self._shape.capacity if bucket is None else bucket
        with self._group.refusing(self.rank):
            self._shape.check_bucket(0, bucket)
            self._group.begin(self.rank, bucket)
        self._received_at = self._session.runs
        native = self._simulator.receive(self._group.handle, self.rank, bucket)
        self._received = self._views(native, bucket)
        return self._received

    def ffn_reply(self, received: Received, out: object) -> None:
        """Reply to every received token with the sum of its rows.

        Args:
            received: what `ffn_receive` returned.
            out: BF16 [rows, H], numpy or CPU torch: a row for each of `expert_offsets[-1]`, or for each of
                `received.x`. It is read now, unless it is `received.x` or what `World.expert_transform` returned:
                these are read where they are, when the reply runs.

        Raises:
            OrderError: `received` is not the last received one, or `out` was made on the host before anything arrived.
            ShapeError: another shape or dtype, or fewer rows than were received.
        """
        self._require("ffn", self._received is received, "ffn_reply", "ffn_receive")
        replies = inputs.replies(self._shape, out, len(received.x))
        self._require_arrived(received, replies)
        self._received = None
        self._group.open_ranks.discard(self.rank)
        address = replies.ctypes.data
        if not self._session.owns(self.rank, address):
            block = self._simulator.allocate(self.rank, max(1, len(received.x) * self._shape.hidden * 2))
            block.array((len(received.x), self._shape.hidden), BF16)[: len(replies)] = replies
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

    def _require(self, role: Role, in_order: bool, call: str, other: str) -> None:
        self._group.require_alive()
        calls.require_role(self._shape.layout, self.rank, role, call)
        calls.require_order(self.rank, in_order, call, other)

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
        shape, ranks = self._shape, self._shape.layout.num_ranks
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
