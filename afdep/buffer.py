"""The Buffer of one simulated rank: the calls of an exchange on numpy arrays."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from afdep import routing
from afdep.dtypes import DispatchDtype
from afdep.errors import OrderError, ShapeError
from afdep.native import ReceivedStruct
from afdep.reference import BF16
from afdep.shapes import ExchangeShape
from afdep.simulator import Allocation, Simulator, view

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

    def __init__(self, world: "Group", rank: int):
        self._world = world
        self._simulator: Simulator = world.simulator
        self._shape: ExchangeShape = world.shape
        self.rank = rank
        self.role = world.shape.layout.role(rank)
        self._tokens: int | None = None
        self._received: Received | None = None

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
        num_tokens: int | None = None,
    ) -> None:
        """Send every token once to each FFN rank that holds one of its experts.

        Args:
            x: [T, H] BF16, or (x [T, H] float8_e4m3fn, scale words [T, words]); numpy or CPU torch.
            topk_idx: int32 or int64 [T, K]; -1 is no route.
            topk_weights: fp32 [T, K] or None.
            bucket: the token class every rank passes for this exchange; the capacity by default.
            num_tokens: how many of the T rows count; all by default.

        Raises:
            OrderError: not an Attention rank, or the last exchange was not collected.
            ShapeError, IdTypeError, CapacityError: an argument; the peers are told.
        """
        self._require("attention", self._tokens is None, "source_dispatch", "source_collect")
        bucket = self._shape.capacity if bucket is None else bucket
        with self._world.refusing(self.rank):
            sent = self._checked(x, topk_idx, topk_weights, bucket, num_tokens)
        self._tokens = sent.tokens
        memory = [self._upload(array) for array in (sent.x, sent.scales, sent.ids, sent.weights)]
        addresses = [None if block is None else block.address for block in memory]
        self._world.hold(memory)
        self._simulator.native.source_dispatch(
            self._simulator.handle,
            self.rank,
            addresses[0],
            addresses[1],
            addresses[2],
            sent.ids.dtype.itemsize,
            addresses[3],
            sent.tokens,
            bucket,
        )

    def source_collect(self, view: bool = False) -> Array:
        """Collect the reply to each token.

        Args:
            view: must be False; this build collects by copy.

        Returns:
            BF16 [T, H], filled by `World.run()`: the sum of the FFN ranks' replies, zeros for a token without a route.

        Raises:
            OrderError: nothing was dispatched.
            ShapeError: view=True.
        """
        self._require("attention", self._tokens is not None, "source_collect", "source_dispatch")
        if view:
            raise ShapeError("view", "False", view, "Collect by copy; the view is not built.")
        tokens = self._tokens or 0
        self._tokens = None
        block = self._simulator.allocate(self.rank, max(1, tokens * self._shape.hidden * 2))
        self._world.hold([block])
        self._simulator.native.source_collect(self._simulator.handle, self.rank, block.address)
        return block.array((tokens, self._shape.hidden), BF16)

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
        with self._world.refusing(self.rank):
            self._shape.check_bucket(0, bucket)
        native = self._simulator.receive(self.rank, bucket)
        self._received = self._views(native, bucket)
        return self._received

    def ffn_reply(self, received: Received, out: Array) -> None:
        """Reply to every received token with the sum of its rows.

        Args:
            received: what `ffn_receive` returned.
            out: BF16 [rows, H], a row for each row of `received.x`; `received.x` itself where its dtype is BF16, or
                what `World.expert_transform` returned.

        Raises:
            OrderError: `received` is not the last received one.
            ShapeError: another shape or dtype.
        """
        self._require("ffn", self._received is received, "ffn_reply", "ffn_receive")
        rows = len(received.x)
        if out.dtype != BF16 or out.ndim != 2 or out.shape[1] != self._shape.hidden or len(out) > rows:
            expected = f"BF16 [up to {rows}, {self._shape.hidden}]"
            raise ShapeError("out", expected, f"{out.dtype}{list(out.shape)}", "Pass a row for each row of received.x.")
        self._received = None
        address = out.ctypes.data
        if not self._world.owns(address):
            block = self._simulator.allocate(self.rank, max(1, rows * self._shape.hidden * 2))
            block.array((rows, self._shape.hidden), BF16)[: len(out)] = out
            self._world.hold([block])
            address = block.address
        self._world.hold([out])
        self._simulator.native.ffn_reply(self._simulator.handle, self.rank, address)

    def _require(self, role: str, in_order: bool, call: str, other: str) -> None:
        self._world.require_alive()
        if self.role != role:
            raise OrderError(
                f"{call}: expected an {role} rank, received rank {self.rank}, which is {self.role}.",
                f"In {self._shape.layout} use rank {list(self._shape.layout.ffn_rank_ids)} for FFN calls, others else.",
            )
        if not in_order:
            raise OrderError(
                f"{call} on rank {self.rank}: expected {other} before it, received {call} again.",
                "An exchange is source_dispatch and source_collect, or ffn_receive and ffn_reply, in turn.",
            )

    def _checked(
        self, x: object, topk_idx: object, topk_weights: object, bucket: int, num_tokens: int | None
    ) -> "_Outgoing":
        payload, scales = x if isinstance(x, tuple) else (x, None)
        rows = _payload(_numpy(payload), self._shape.dtype, self._shape.hidden)
        tokens = len(rows) if num_tokens is None else num_tokens
        if tokens > len(rows):
            raise ShapeError("num_tokens", f"at most {len(rows)}, the rows of x", tokens, "Pass x with more rows.")
        self._shape.check_bucket(tokens, bucket)
        ids = routing.check_ids(_numpy(topk_idx), len(rows), self._shape.top_k, self._shape.num_experts)
        weights = None if topk_weights is None else _weights(_numpy(topk_weights), ids.shape)
        words = _scales(scales, self._shape.dtype, len(rows), self._shape.hidden)
        return _Outgoing(rows, words, ids, weights, tokens)

    def _upload(self, array: Array | None) -> Allocation | None:
        if array is None:
            return None
        block = self._simulator.allocate(self.rank, max(1, array.nbytes))
        block.array(array.shape, array.dtype)[...] = array
        return block

    def _views(self, native: ReceivedStruct, bucket: int) -> Received:
        shape, ranks = self._shape, self._shape.layout.num_ranks
        rows = int(native.max_rows)
        element: Any = BF16 if shape.dtype.element_bytes == 2 else np.uint8
        words = shape.dtype.scale_bytes(shape.hidden) // 4

        def on(address: int, dims: tuple[int, ...], dtype: Any) -> Array:
            return view(self._simulator, address, dims, dtype)

        return Received(
            x=on(native.rows, (rows, shape.hidden), element),
            weights=on(native.row_weights, (rows,), np.float32),
            scales=on(native.row_scales, (rows, words), np.uint32) if words else None,
            expert_offsets=on(native.expert_offsets, (shape.experts_per_rank + 1,), np.int32),
            _metadata=on(native.source_metadata, (ranks * bucket, shape.top_k + 2), np.int32),
            _rank_prefix=on(native.rank_prefix, (ranks,), np.int32),
            _bucket=bucket,
        )


@dataclass(frozen=True)
class _Outgoing:
    """A checked dispatch: rows, scale words, ids, weights and how many of the tokens count."""

    x: Array
    scales: Array | None
    ids: Array
    weights: Array | None
    tokens: int


class Group(Protocol):
    """What a Buffer needs of its World."""

    simulator: Simulator
    shape: ExchangeShape

    def hold(self, memory: Sequence[object]) -> None:
        """Keep memory until the kernels that use it are done."""

    def owns(self, address: int) -> bool:
        """Whether the address is simulated memory."""

    def refusing(self, rank: int) -> AbstractContextManager[None]:
        """A context in which an exception makes the rank tell its peers."""

    def require_alive(self) -> None:
        """Raise DeadBufferError after a failure."""


def _numpy(value: object) -> Array:
    """A numpy array, or a CPU torch tensor as one without a copy."""
    if type(value).__module__.partition(".")[0] != "torch":
        return np.asarray(value)
    tensor: Any = value
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "bfloat16":
        return tensor.detach().contiguous().view(_torch_dtype(tensor, "int16")).numpy().view(BF16)
    if name.startswith("float8"):
        return tensor.detach().contiguous().view(_torch_dtype(tensor, "uint8")).numpy()
    return np.asarray(tensor.detach().numpy())


def _torch_dtype(tensor: Any, name: str) -> Any:
    return getattr(sys.modules[type(tensor).__module__.partition(".")[0]], name)


def _payload(x: Array, dtype: DispatchDtype, hidden: int) -> Array:
    if x.dtype.itemsize == dtype.element_bytes and x.dtype.kind in "Vu" or x.dtype == BF16 == _element(dtype):
        x = x.view(_element(dtype))
    if x.dtype != _element(dtype) or x.ndim != 2 or x.shape[1] != hidden:
        expected = f"{dtype.name} [T, {hidden}]"
        raise ShapeError("x", expected, f"{x.dtype}{list(x.shape)}", "Cast and reshape x; T may be 0 as [0, H].")
    return np.ascontiguousarray(x)


def _element(dtype: DispatchDtype) -> Any:
    return BF16 if dtype.element_bytes == 2 else np.dtype(np.uint8)


def _weights(weights: Array, shape: tuple[int, ...]) -> Array:
    if weights.dtype != np.float32 or weights.shape != shape:
        expected, received = f"float32{list(shape)}", f"{weights.dtype}{list(weights.shape)}"
        raise ShapeError("topk_weights", expected, received, "Pass a weight for each id, in fp32.")
    return np.ascontiguousarray(weights)


def _scales(scales: object, dtype: DispatchDtype, tokens: int, hidden: int) -> Array | None:
    words = dtype.scale_bytes(hidden) // 4
    if (scales is None) != (words == 0):
        expected = "none for BF16" if words == 0 else f"scale words [T, {words}]"
        raise ShapeError("scales", expected, "none" if scales is None else "some", "Pass x as (x, scales) for FP8.")
    if scales is None:
        return None
    array = _numpy(scales)
    if array.dtype.itemsize != 4 or array.shape != (tokens, words):
        raise ShapeError("scales", f"4-byte words [{tokens}, {words}]", f"{array.dtype}{list(array.shape)}", "")
    return np.ascontiguousarray(array).view(np.uint32)
