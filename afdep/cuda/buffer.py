"""The Buffer of a rank on a GPU: the calls of an exchange on torch tensors."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from afdep import build, calls, controls
from afdep.arms import Arm
from afdep.cuda import agreement, capture, inputs, native, windows
from afdep.cuda.counts import PendingCounts
from afdep.cuda.makers import Maker
from afdep.cuda.memory import address, tensor
from afdep.cuda.rank import NativeRank, shape_struct
from afdep.cuda.received import DeviceReceived, received_views
from afdep.cuda.streams import ordered
from afdep.errors import AfdepError, DeadBufferError, ShapeError
from afdep.layout import Layout, Role
from afdep.native import ReceivedStruct
from afdep.shapes import ExchangeShape

_FIRST_TIMEOUT_S = 120.0
_COUNTS_ON_DEVICE = "Read expert_offsets on the device, or receive outside the capture."


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
        arm: an Arm, or its name; by default `afdep` with the AFDEP_ controls that the environment sets now.
        timeout_s: of one wait on the device.
        first_timeout_s: of one wait of the first exchange, whose peers may still be loading; by default timeout_s, at
            least 120.
        maker: of the windows; by default symmetric memory where every rank has a GPU of its own, else CUDA IPC; where
            it cannot serve the other does, and the log says so.
        library: a native library, by default the one built from this tree.

    Raises:
        CaptureError: the current stream is being captured.
        ShapeError, LayoutError, ArmError, ControlError, BuildError: an argument; the peers raise PeerRefusedError.
        AgreementError: the ranks were made differently; every rank raises it.
        DeviceError: CUDA refused on a rank; every rank raises it.
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
        arm: Arm | str | None = None,
        dispatch_dtype: Any = "bf16",
        transport_sms: int = 24,
        expert_alignment: int = 1,
        timeout_s: float = 60.0,
        first_timeout_s: float | None = None,
        maker: Maker | None = None,
        library: Path | None = None,
    ):
        capture.require_none("DeviceBuffer")
        started = time.monotonic()
        self.layout = layout if isinstance(layout, Layout) else Layout.parse(layout)
        agreement.check_size(group, self.layout)
        try:
            self.arm = arm if isinstance(arm, Arm) else Arm.parse(arm) if arm else Arm.of_environ(os.environ)
            self.shape = ExchangeShape(
                *(self.layout, hidden, num_experts, top_k, capacity),
                *(inputs.dtype_name(dispatch_dtype), transport_sms, expert_alignment),
            )
            self.shape.check_protocol(self.arm.protocol)
            windows.check_maker(maker)
            self._native = native.load(library or build.build_cuda())
        except Exception:
            agreement.agree(group, None)
            raise
        agreement.agree(group, agreement.fields(self.shape, self.arm, self._native.build_info.digest))
        self.rank = dist.get_rank(group)
        self.role = self.layout.role(self.rank)
        self._native_shape = shape_struct(self.shape, self.arm)
        self._timeout_s = timeout_s
        first_timeout_s = max(timeout_s, _FIRST_TIMEOUT_S) if first_timeout_s is None else first_timeout_s
        self._end = NativeRank(self._native, group, self.rank, self._native_shape, maker, first_timeout_s)
        self._stream = torch.cuda.Stream(priority=torch.cuda.Stream.priority_range()[1])
        self.group = group
        self._begun = 0
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
            "windows": self._end.maker,
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
            CaptureError: the first exchange, under capture.
            ShapeError, IdTypeError, CapacityError: an argument; the peers are told.
        """
        self._require("attention", self._tokens is None, "source_dispatch", "source_collect")
        self._require_warm("source_dispatch")
        bucket = self.shape.capacity if bucket is None else bucket
        with self._refusing():
            sent = inputs.outgoing(self.shape, x, topk_idx, topk_weights, bucket, num_tokens)
        self._begin()
        self._tokens = sent.tokens
        with ordered(self._stream, sent.x, sent.scales, sent.ids, sent.weights, sent.num_tokens) as stream:
            self._end.call(
                "cuda_source_dispatch",
                stream,
                *(address(sent.x), address(sent.scales), address(sent.ids), sent.ids.element_size()),
                *(address(sent.weights), sent.tokens, address(sent.num_tokens), bucket),
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
        with ordered(self._stream, y) as stream:
            self._end.call("cuda_source_collect", stream, address(y))
        return y

    def ffn_receive(self, bucket: int | None = None, host_counts: bool = False) -> DeviceReceived:
        """Receive the rows of this rank's experts.

        Args:
            bucket: the token class every rank passes for this exchange; the capacity by default.
            host_counts: whether `host_counts` of the result gives the counts of rows on the host.

        Raises:
            OrderError: not an FFN rank, or the last exchange was not replied to.
            CaptureError: the first exchange, or host counts, under capture.
            ShapeError, CapacityError: the bucket; the peers are told.
        """
        self._require("ffn", self._received is None, "ffn_receive", "ffn_reply")
        self._require_warm("ffn_receive")
        if host_counts:
            capture.require_none("ffn_receive with host counts", _COUNTS_ON_DEVICE)
        bucket = self.shape.capacity if bucket is None else bucket
        with self._refusing():
            self.shape.check_bucket(0, bucket)
        self._begin()
        found = ReceivedStruct()
        with ordered(self._stream) as stream:
            self._end.call("cuda_ffn_receive", stream, bucket, byref(found))
            counts = self._pending_counts(found) if host_counts else None
            self._received = received_views(self, found, self.shape, bucket, counts)
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
        with ordered(self._stream, out) as stream:
            self._end.call("cuda_ffn_reply", stream, address(out))

    def expert_transform(self, received: DeviceReceived, out: Any) -> None:
        """Enqueue the exact FFN stand-in of proofs: row * `reference.expert_scale` of its expert, into BF16 `out`."""
        inputs.check_replies(self.shape, out, len(received.x))
        with ordered(self._stream, out) as stream:
            self._end.call("cuda_expert_transform", stream, address(out))

    def poison(self, bucket: int) -> None:
        """Fill what an exchange of that bucket writes on this rank with bytes of ones."""
        with ordered(self._stream) as stream:
            self._end.call("cuda_poison", stream, bucket, 0xFF)

    def synchronize(self) -> None:
        """Wait for everything enqueued on this Buffer.

        Raises:
            WaitTimeoutError, PeerTimeoutError: a rank did not take part.
            DeviceAssertion: a route that names no expert, or one expert twice; every rank has been told.
            PeerRefusedError: a rank refused its call.
            CaptureError: the current stream is being captured.
        """
        self._require_alive()
        capture.require_none("synchronize", "Leave the capture first: what it holds runs when its graph is replayed.")
        self._stream.synchronize()
        torch.cuda.current_stream().synchronize()
        self._check_failure()

    def close(self) -> None:
        """Give everything back; collective. The Buffer and what it received are dead afterwards."""
        self._ended_by = self._ended_by or "it was closed"
        torch.cuda.synchronize()
        dist.barrier(self.group)
        self._end.release()

    def _begin(self) -> None:
        """The next exchange begins; from the second one on its peers are up."""
        if self._begun == 1:
            self._end.set_timeout(self._timeout_s)
        self._begun += 1

    def _require_warm(self, call: str) -> None:
        """The first exchange waits longer than a graph that holds it should."""
        if self._begun == 0:
            capture.require_none(call)

    def _pending_counts(self, found: ReceivedStruct) -> PendingCounts:
        counts = tensor(self, found.expert_counts, (self.shape.experts_per_rank,), torch.int32)
        return PendingCounts(counts, self._stream, self._check_failure)

    def _check_failure(self) -> None:
        try:
            self._end.check_failure()
        except AfdepError as error:
            self._ended_by = error.problem
            raise

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._end.call("cuda_refuse", self._stream.cuda_stream)
            raise

    def _require(self, role: Role, in_order: bool, call: str, other: str) -> None:
        self._require_alive()
        calls.require_role(self.layout, self.rank, role, call)
        calls.require_order(self.rank, in_order, call, other)

    def _require_alive(self) -> None:
        if self._ended_by is not None:
            raise DeadBufferError(self._ended_by)
