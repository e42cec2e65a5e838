"""The Buffer of a rank on a GPU: the calls of an exchange on torch tensors."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_void_p
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from afdep import build, controls
from afdep.arms import Arm
from afdep.cuda import agreement, failures, inputs, native, windows
from afdep.cuda.received import DeviceReceived, received_views
from afdep.dtypes import DISPATCH_DTYPES
from afdep.errors import AfdepError, DeadBufferError, LayoutError, OrderError, ShapeError
from afdep.layout import Layout
from afdep.native import ReceivedStruct, ShapeStruct
from afdep.shapes import ExchangeShape

_PROTOCOLS = {"m2n": 0, "afdep": 1}


class DeviceBuffer:
    """One rank's end of the exchanges, on this process's current GPU.

    An Attention rank calls `source_dispatch` and `source_collect` in turn, an FFN rank `ffn_receive` and `ffn_reply`,
    all ranks with the same sequence of buckets. The calls enqueue work on a high-priority stream of the Buffer, behind
    what the current stream holds and before what it will hold; they may be captured into CUDA graphs. A failure on the
    device is raised by `synchronize`.

    Args:
        group: a torch.distributed process group, None for the default one. Its ranks are the layout's.
        layout: a Layout, or its text.
        hidden, num_experts, top_k, capacity, transport_sms, expert_alignment: see ExchangeShape.
        dispatch_dtype: one of DISPATCH_DTYPES, or torch's dtype.
        arm: an Arm, or its name.
        timeout_s: of one wait on the device.
        maker: of the windows; by default symmetric memory where every rank has a GPU of its own, else CUDA IPC.
        library: a native library, by default the one built from this tree.

    Raises:
        ShapeError, LayoutError, ArmError, ControlError, BuildError: an argument.
        AgreementError: the ranks were made differently; every rank raises it.
        DeviceError: CUDA refused.
    """

    def __init__(
        self,
        group: Any,
        *,
        layout: Layout | str,
        hidden: int,
        num_experts: int,
        top_k: int,
        capacity: int,
        arm: Arm | str = "afdep",
        dispatch_dtype: Any = "bf16",
        transport_sms: int = 24,
        expert_alignment: int = 1,
        timeout_s: float = 60.0,
        maker: windows.Maker | None = None,
        library: Path | None = None,
    ):
        started = time.monotonic()
        self.layout = layout if isinstance(layout, Layout) else Layout.parse(layout)
        self.arm = arm if isinstance(arm, Arm) else Arm.parse(arm)
        self.shape = ExchangeShape(
            *(self.layout, hidden, num_experts, top_k, capacity),
            *(inputs.dtype_name(dispatch_dtype), transport_sms, expert_alignment),
        )
        self.shape.check_protocol(self.arm.protocol)
        self._native = native.load(library or build.build_cuda())
        self.rank = dist.get_rank(group)
        self._agree(group)
        self.role = self.layout.role(self.rank)
        self._native_shape = self._shape_struct()
        num_bytes = int(self._native.cuda_window_bytes(byref(self._native_shape)))
        self._windows = windows.make(self._native, group, num_bytes, maker or windows.suitable_maker(group))
        addresses = (c_void_p * self.layout.num_ranks)(*self._windows.addresses)
        self._handle = self._native.pointer(
            self._native.cuda_create(byref(self._native_shape), self.rank, addresses, int(timeout_s * 1e9))
        )
        self._stream = torch.cuda.Stream(priority=torch.cuda.Stream.priority_range()[1])
        self._group = group
        self._tokens: int | None = None
        self._received: DeviceReceived | None = None
        self._ended_by: str | None = None
        dist.barrier(group)
        self.construction_s = time.monotonic() - started

    @property
    def identity(self) -> dict[str, Any]:
        """What runs, as the loaded library reports it: digest, target, protocol, switches and who made the windows."""
        info = self._native.build_info
        return {
            "digest": info.digest,
            "target": info.target,
            "protocol": self.arm.protocol,
            "switches": dict(controls.from_bits(self._native_shape.switches)),
            "windows": self._windows.maker,
        }

    @property
    def registered_bytes(self) -> int:
        """Registered transport memory of a rank, without the workspace."""
        return int(self._native.inbox_bytes(byref(self._native_shape)))

    def source_dispatch(
        self, x: Any, topk_idx: Any, topk_weights: Any = None, bucket: int | None = None, num_tokens: Any = None
    ) -> None:
        """Send every token once to each FFN rank that holds one of its experts.

        Args:
            x: [T, H] BF16, or (x [T, H] float8_e4m3fn, scale words [T, words]).
            topk_idx: int32 or int64 [T, K]; -1 is no route.
            topk_weights: fp32 [T, K] or None.
            bucket: the token class every rank passes for this exchange; the capacity by default.
            num_tokens: T, or int32 [1] on the GPU, read as rows are sent and as replies are collected: zeros past it.

        Raises:
            OrderError: not an Attention rank, or the last exchange was not collected.
            ShapeError, IdTypeError, CapacityError: an argument; the peers are told.
        """
        self._require("attention", self._tokens is None, "source_dispatch", "source_collect")
        bucket = self.shape.capacity if bucket is None else bucket
        with self._refusing():
            sent = inputs.outgoing(self.shape, x, topk_idx, topk_weights, bucket, num_tokens)
        self._tokens = sent.tokens
        with self._ordered(sent.x, sent.scales, sent.ids, sent.weights, sent.num_tokens) as stream:
            self._call(
                "cuda_source_dispatch",
                stream,
                *(_address(sent.x), _address(sent.scales), _address(sent.ids), sent.ids.element_size()),
                *(_address(sent.weights), sent.tokens, _address(sent.num_tokens), bucket),
            )

    def source_collect(self, view: bool = False, out: Any = None) -> Any:
        """Collect the reply to each token.

        Args:
            view: must be False; this build collects by copy.
            out: BF16 [T, H] to write, by default a new tensor.

        Returns:
            BF16 [T, H]: the sum of the FFN ranks' replies, zeros for a token without a route.

        Raises:
            OrderError: nothing was dispatched.
            ShapeError: view=True, or another `out`.
        """
        self._require("attention", self._tokens is not None, "source_collect", "source_dispatch")
        if view:
            raise ShapeError("view", "False", view, "Collect by copy; the view is not built.")
        tokens = self._tokens or 0
        y = torch.empty((tokens, self.shape.hidden), dtype=torch.bfloat16, device="cuda") if out is None else out
        inputs.check_replies(self.shape, y, tokens)
        self._tokens = None
        with self._ordered(y) as stream:
            self._call("cuda_source_collect", stream, _address(y))
        return y

    def ffn_receive(self, bucket: int | None = None) -> DeviceReceived:
        """Receive the rows of this rank's experts.

        Args:
            bucket: the token class every rank passes for this exchange; the capacity by default.

        Raises:
            OrderError: not an FFN rank, or the last exchange was not replied to.
            ShapeError, CapacityError: the bucket; the peers are told.
        """
        self._require("ffn", self._received is None, "ffn_receive", "ffn_reply")
        bucket = self.shape.capacity if bucket is None else bucket
        with self._refusing():
            self.shape.check_bucket(0, bucket)
        found = ReceivedStruct()
        with self._ordered() as stream:
            self._call("cuda_ffn_receive", stream, bucket, byref(found))
            self._received = received_views(self, found, self.shape, bucket)
        return self._received

    def ffn_reply(self, received: DeviceReceived, out: Any) -> None:
        """Reply to every received token with the sum of its rows.

        Args:
            received: what `ffn_receive` returned.
            out: BF16 [rows, H], a row for each of `received.x`, which it may be.

        Raises:
            OrderError: `received` is not the last received one.
            ShapeError: another shape or dtype.
        """
        self._require("ffn", received is not None and self._received is received, "ffn_reply", "ffn_receive")
        inputs.check_replies(self.shape, out, len(received.x))
        self._received = None
        with self._ordered(out) as stream:
            self._call("cuda_ffn_reply", stream, _address(out))

    def expert_transform(self, received: DeviceReceived, out: Any) -> None:
        """Enqueue the exact FFN stand-in of proofs: row * `reference.expert_scale` of its expert, into BF16 `out`."""
        inputs.check_replies(self.shape, out, len(received.x))
        with self._ordered(out) as stream:
            self._call("cuda_expert_transform", stream, _address(out))

    def poison(self, bucket: int) -> None:
        """Fill what an exchange of that bucket writes on this rank with bytes of ones."""
        with self._ordered() as stream:
            self._call("cuda_poison", stream, bucket, 0xFF)

    def synchronize(self) -> None:
        """Wait for everything enqueued on this Buffer.

        Raises:
            WaitTimeoutError: a peer did not take part.
            DeviceAssertion: a route that names no expert, or one expert twice; every rank has been told.
            PeerRefusedError: a rank refused its call.
        """
        self._require_alive()
        self._stream.synchronize()
        torch.cuda.current_stream().synchronize()
        try:
            failures.check(self._native, self._handle, self.rank)
        except AfdepError as error:
            self._ended_by = error.problem
            raise

    def close(self) -> None:
        """Give everything back; collective. The Buffer and what it received are dead afterwards."""
        self._ended_by = self._ended_by or "it was closed"
        torch.cuda.synchronize()
        dist.barrier(self._group)
        self._native.check(self._native.cuda_destroy(self._handle))
        self._windows.release()

    def _agree(self, group: Any) -> None:
        size = dist.get_world_size(group)
        if size != self.layout.num_ranks:
            raise LayoutError(
                f"layout {self.layout}: expected a group of {self.layout.num_ranks} ranks, received {size}.",
                "Start one process a rank, or choose the layout of the group.",
            )
        own = agreement.fields(self.shape, self.arm, self._native.build_info.digest)
        by_rank: list[dict[str, object]] = [{}] * size
        dist.all_gather_object(by_rank, own, group)
        agreement.check(by_rank)

    def _shape_struct(self) -> ShapeStruct:
        shape = self.shape
        return ShapeStruct(
            *(self.layout.attention_ranks, self.layout.ffn_ranks),
            *(shape.hidden, shape.num_experts, shape.top_k, shape.capacity),
            *(list(DISPATCH_DTYPES).index(shape.dispatch_dtype), shape.transport_sms, _PROTOCOLS[self.arm.protocol]),
            *(controls.bits(self.arm), shape.expert_alignment),
        )

    @contextmanager
    def _ordered(self, *used: Any) -> Iterator[int]:
        """The Buffer's stream, behind the current one before and ahead of it after; it uses these tensors."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        for memory in used:
            if memory is not None:
                memory.record_stream(self._stream)
        yield self._stream.cuda_stream
        current.wait_stream(self._stream)

    def _call(self, name: str, stream: int, *arguments: Any) -> None:
        self._native.check(getattr(self._native, name)(self._handle, stream, *arguments))

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._call("cuda_refuse", self._stream.cuda_stream)
            raise

    def _require(self, role: str, in_order: bool, call: str, other: str) -> None:
        self._require_alive()
        if self.role != role:
            raise OrderError(
                f"{call}: expected an {role} rank, received rank {self.rank}, which is {self.role}.",
                f"In {self.layout} ranks {list(self.layout.ffn_rank_ids)} are FFN ranks, the others Attention ranks.",
            )
        if not in_order:
            raise OrderError(
                f"{call} on rank {self.rank}: expected {other} before it, received {call} without it.",
                "An exchange is source_dispatch and source_collect, or ffn_receive and ffn_reply, in turn.",
            )

    def _require_alive(self) -> None:
        if self._ended_by is not None:
            raise DeadBufferError(self._ended_by)


def _address(memory: Any) -> int | None:
    return None if memory is None else int(memory.data_ptr())
