"""The Buffer of a rank on a GPU, on torch tensors."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist

from afdep import abi, build, calls, controls
from afdep.abi import ReceivedStruct
from afdep.arms import Arm
from afdep.cuda import agreement, capture, inputs, native, windows
from afdep.cuda.counts import PendingCounts
from afdep.cuda.inputs import Outgoing
from afdep.cuda.life import Life
from afdep.cuda.makers import Maker
from afdep.cuda.memory import address, tensor
from afdep.cuda.rank import NativeRank
from afdep.cuda.received import DeviceReceived, received_views
from afdep.cuda.streams import high_priority, ordered
from afdep.interface import ExchangeBuffer
from afdep.layout import Layout
from afdep.shapes import ExchangeShape

_FIRST_TIMEOUT_S = 120.0
_COUNTS_ON_DEVICE = "Read expert_offsets on the device, or receive outside the capture."


class Buffer(ExchangeBuffer):
    """One rank's endpoint of the exchanges, on this process's current GPU.

    The calls of `ExchangeBuffer` enqueue work on a high-priority stream of the Buffer, behind what the current stream
    holds and before what it will hold; they may be captured into CUDA graphs. A failure on the device is raised by
    `synchronize`. Beyond the interface `source_collect(out=y)` writes BF16 [T, H] into a tensor of the caller's, and
    `ffn_receive(host_counts=True)` has the counts of rows copied to the host, as `host_counts` of what it returns.

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
        CaptureError: the current stream is being captured; the peers raise PeerRefusedError, as for what follows.
        ShapeError, LayoutError, ArmError, ControlError, BuildError: an argument.
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
        started = time.monotonic()
        try:
            capture.require_none("Buffer")
            layout = layout if isinstance(layout, Layout) else Layout.parse(layout)
            agreement.check_size(group, layout)
            self.arm = arm if isinstance(arm, Arm) else Arm.parse(arm) if arm else Arm.of_environ(os.environ)
            shape = ExchangeShape(
                *(layout, hidden, num_experts, top_k, capacity),
                *(inputs.dtype_name(dispatch_dtype), transport_sms, expert_alignment),
            )
            shape.check_protocol(self.arm.protocol)
            windows.check_maker(maker)
            self._native = native.load(library or build.build_cuda())
        except Exception:
            agreement.agree(group, None)
            raise
        agreement.agree(group, agreement.fields(shape, self.arm, self._native.build_info.digest))
        super().__init__(shape, dist.get_rank(group))
        self._native_shape = abi.struct_of(self.shape, self.arm)
        self._timeout_s = timeout_s
        first_timeout_s = max(timeout_s, _FIRST_TIMEOUT_S) if first_timeout_s is None else first_timeout_s
        self._end = NativeRank(self._native, group, self.rank, self._native_shape, maker, first_timeout_s)
        self._stream = high_priority()
        self._life = Life(self._end, self._stream)
        self.group = group
        self._begun = 0
        self._sent: Outgoing | None = None
        self._received: DeviceReceived | None = None
        self._closed = False
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
        self._require("attention", self._sent is None, "source_dispatch", "source_collect")
        self._require_warm("source_dispatch", self._begun + 1)
        bucket = self.shape.capacity if bucket is None else bucket
        with self._life.refusing():
            sent = inputs.outgoing(self.shape, x, topk_idx, topk_weights, bucket, num_tokens)
            self._begin()
        self._sent = sent
        with self._enqueuing(sent.x, sent.scales, sent.ids, sent.weights, sent.num_tokens) as stream:
            self._end.call(
                "cuda_source_dispatch",
                stream,
                *(address(sent.x), address(sent.scales), address(sent.ids), sent.ids.element_size()),
                *(address(sent.weights), sent.tokens, address(sent.num_tokens), bucket),
            )

    def source_collect(self, view: bool = False, out: Any = None) -> Any:
        self._require("attention", self._sent is not None, "source_collect", "source_dispatch")
        self._require_warm("source_collect", self._begun)
        calls.refuse_view(view)
        sent = cast(Outgoing, self._sent)
        y = torch.empty((sent.tokens, self.shape.hidden), dtype=torch.bfloat16, device="cuda") if out is None else out
        inputs.check_replies(self.shape, y, sent.tokens)
        self._sent = None
        with self._enqueuing(y, sent.ids, sent.num_tokens) as stream:
            self._end.call("cuda_source_collect", stream, address(y))
        return y

    def ffn_receive(self, bucket: int | None = None, host_counts: bool = False) -> DeviceReceived:
        self._require("ffn", self._received is None, "ffn_receive", "ffn_reply")
        self._require_warm("ffn_receive", self._begun + 1)
        if host_counts:
            capture.require_none("ffn_receive with host counts", _COUNTS_ON_DEVICE)
        bucket = self.shape.capacity if bucket is None else bucket
        with self._life.refusing():
            self.shape.check_bucket(0, bucket)
            self._begin()
        found = ReceivedStruct()
        with self._enqueuing() as stream:
            self._end.call("cuda_ffn_receive", stream, bucket, byref(found))
            counts = self._pending_counts(found) if host_counts else None
            self._received = received_views(self, found, self.shape, bucket, counts)
        return self._received

    def ffn_reply(self, received: Any, out: Any) -> None:
        self._require("ffn", received is not None and self._received is received, "ffn_reply", "ffn_receive")
        self._require_warm("ffn_reply", self._begun)
        inputs.check_replies(self.shape, out, len(received.x))
        self._received = None
        with self._enqueuing(out) as stream:
            self._end.call("cuda_ffn_reply", stream, address(out))

    def expert_transform(self, received: DeviceReceived, out: Any) -> None:
        """Enqueue the exact FFN stand-in of proofs: row * `reference.expert_scale` of its expert, into BF16 `out`."""
        inputs.check_replies(self.shape, out, len(received.x))
        with self._enqueuing(out) as stream:
            self._end.call("cuda_expert_transform", stream, address(out))

    def poison(self, bucket: int) -> None:
        """Fill what an exchange of that bucket writes on this rank with bytes of ones."""
        with self._enqueuing() as stream:
            self._end.call("cuda_poison", stream, bucket, 0xFF)

    def synchronize(self) -> None:
        """Wait for everything enqueued on this Buffer.

        Raises:
            WaitTimeoutError, PeerTimeoutError: a rank did not take part.
            DeviceAssertion: a route that names no expert, or one expert twice; every rank has been told.
            PeerRefusedError: a rank refused its call.
            CaptureError: the current stream is being captured.
        """
        self._life.require()
        capture.require_none("synchronize", "Leave the capture first: what it holds runs when its graph is replayed.")
        self._stream.synchronize()
        torch.cuda.current_stream().synchronize()
        self._life.check_failure()

    def close(self) -> None:
        """Give everything back; collective once, then nothing. The Buffer and what it received are dead afterwards."""
        if self._closed:
            return
        self._closed = True
        self._life.end("it was closed")
        try:
            torch.cuda.synchronize()
        finally:
            dist.barrier(self.group)
            self._end.release()

    def _begin(self) -> None:
        """The next exchange begins; from the second one on its peers are up."""
        if self._begun == 1:
            self._end.set_timeout(self._timeout_s)
        self._begun += 1

    @staticmethod
    def _require_warm(call: str, number: int) -> None:
        """The first exchange waits longer than a graph that holds a part of it should."""
        if number == 1:
            capture.require_none(call)

    def _pending_counts(self, found: ReceivedStruct) -> PendingCounts:
        counts = tensor(self, found.expert_counts, (self.shape.experts_per_rank,), torch.int32)
        return PendingCounts(counts, self._stream, self._life.check_failure)

    @contextmanager
    def _enqueuing(self, *used: Any) -> Iterator[int]:
        """The stream, in order, for a call of the library that uses these tensors; the peers are told if it fails."""
        with self._life.refusing(), ordered(self._stream, *used) as stream:
            yield stream

    def _require_alive(self) -> None:
        self._life.require()
