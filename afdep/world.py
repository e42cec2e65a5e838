"""The simulator's public face: a whole group of ranks in one process, on numpy arrays."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from afdep import build, controls, inputs, native, proof, timing
from afdep.arms import Arm
from afdep.buffer import Buffer
from afdep.dtypes import DISPATCH_DTYPES
from afdep.errors import OrderError, ShapeError
from afdep.graph import Graph, capturing
from afdep.group import Group
from afdep.layout import Layout
from afdep.machine import Machine
from afdep.native import OptionsStruct, ShapeStruct
from afdep.reference import BF16
from afdep.shapes import ExchangeShape
from afdep.simulator import Simulator
from afdep.timing import Load, Timing

Mode = Literal["check", "time", "hunt"]

_PROTOCOLS = {"m2n": 0, "afdep": 1}
_DTYPES = {name: code for code, name in enumerate(DISPATCH_DTYPES)}
_POISON = 0xFF
_WARM_UP_EXCHANGES = 2


class World:
    """A group of simulated ranks.

    Args:
        layout: a Layout, or its text.
        hidden, num_experts, top_k, capacity, dispatch_dtype, transport_sms, expert_alignment: see ExchangeShape.
        arm: an Arm, or its name.
        machine: the name of a machine file.
        mode: "check" moves every byte; "time" moves control bytes only (the times are the same) except in `prove`;
            "hunt" draws an adversarial schedule from `seed`.
        seed: of the schedule, in hunt mode; it replays exactly.
        fiber: "warp", or "thread" for one fiber a thread: slower, and sees a missing warp barrier.
        library: a native library, by default the one built from this tree.

    Raises:
        ShapeError, LayoutError, ArmError, ControlError, MachineError, BuildError
    """

    def __init__(
        self,
        layout: Layout | str,
        *,
        hidden: int,
        num_experts: int,
        top_k: int,
        capacity: int,
        arm: Arm | str = "afdep",
        dispatch_dtype: str = "bf16",
        transport_sms: int = 24,
        expert_alignment: int = 1,
        machine: str | Machine = "h100-nvlink",
        mode: Mode = "check",
        seed: int = 0,
        fiber: build.Fiber = "warp",
        library: Path | None = None,
    ):
        self.layout = layout if isinstance(layout, Layout) else Layout.parse(layout)
        self.arm = arm if isinstance(arm, Arm) else Arm.parse(arm)
        self.shape = ExchangeShape(
            self.layout, hidden, num_experts, top_k, capacity, dispatch_dtype, transport_sms, expert_alignment
        )
        self.shape.check_protocol(self.arm.protocol)
        if mode not in ("check", "time", "hunt"):
            raise ShapeError("mode", "check, time or hunt", mode, "Pick one of the three.")
        if fiber not in ("warp", "thread"):
            raise ShapeError("fiber", "warp or thread", fiber, "Pick one of the two.")
        if not 0 <= seed < 2**64:
            raise ShapeError("seed", "0..2**64 - 1", seed, "Seeds of schedules are 64 bits, unsigned.")
        self._mode = mode
        machine = machine if isinstance(machine, Machine) else Machine.load(machine)
        self._native = native.load(library or build.build(fiber))
        options = OptionsStruct(int(mode != "time"), int(mode == "hunt"), seed)
        self.simulator = Simulator(self._native, self._native_shape(), options, machine.constants())
        self._group = Group(self.simulator, self.shape)
        self._results: dict[int, NDArray[Any]] = {}
        self._buffers = [Buffer(self._group, rank) for rank in range(self.layout.num_ranks)]

    @property
    def identity(self) -> dict[str, Any]:
        """What runs, as the loaded library reports it: digest, target, fiber, protocol and switches."""
        info = self._native.build_info
        shape = self._native_shape()
        protocol = {code: name for name, code in _PROTOCOLS.items()}[shape.protocol]
        return {
            "digest": info.digest,
            "target": info.target,
            "fiber": info.fiber,
            "protocol": protocol,
            "switches": dict(controls.from_bits(shape.switches)),
        }

    @property
    def registered_bytes(self) -> int:
        """Registered transport memory of a rank, without the workspace."""
        return int(self._native.inbox_bytes(native.byref(self._native_shape())))

    def buffer(self, rank: int) -> Buffer:
        """The Buffer of a rank.

        Raises:
            ShapeError: no such rank.
        """
        self._check_rank(rank)
        return self._buffers[rank]

    @property
    def ffns(self) -> list[Buffer]:
        """The FFN ranks' Buffers."""
        return [self._buffers[rank] for rank in self.layout.ffn_rank_ids]

    @property
    def sources(self) -> list[Buffer]:
        """The Attention ranks' Buffers, by source index."""
        return [self._buffers[rank] for rank in self.layout.attention_rank_ids]

    def run(self) -> None:
        """Run everything enqueued to its end.

        Raises:
            DeviceAssertion: a route that names no expert, or one expert twice; every rank has been told.
            PeerRefusedError: a rank refused its call.
            DeadlockError: a wait that nothing can end, with every such wait.
            MemoryFaultError: a kernel left its memory.
            DeadBufferError: the group failed before.
        """
        self._group.run()

    def empty(self, rank: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A zeroed array in a rank's memory, read and written in place by what is enqueued and by graphs.

        Raises:
            ShapeError: no such rank.
        """
        self._check_rank(rank)
        block = self.simulator.allocate(rank, max(1, int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize))
        return block.array(shape, dtype)

    def capture(self) -> AbstractContextManager[Graph]:
        """Record the calls of a `with` block instead of enqueueing them: whole exchanges, of every rank.

        Returns:
            A context that gives the graph, to be replayed once the block has ended.

        Raises:
            OrderError: on entering inside another capture, or where an exchange is open as the block begins or ends:
                replays of half an exchange would break the order that the protocol rests on.
        """
        return capturing(self._group, self._buffers)

    @property
    def informed_ranks(self) -> list[int]:
        """Ranks that were told of a failure, in order."""
        return self._group.informed_ranks

    def expert_transform(self, rank: int) -> NDArray[Any]:
        """Enqueue the exact FFN stand-in on an FFN rank: row * `reference.expert_scale` of its expert.

        FP8 rows count as `fp8.decode` of them.

        Returns:
            BF16 [rows, H], to be passed to `ffn_reply` at once.
        """
        received = self._buffers[rank].pending
        if received is None:
            raise OrderError(
                f"expert_transform on rank {rank}: expected ffn_receive before it, received none.",
                "Enqueue ffn_receive, expert_transform and ffn_reply in this order.",
            )
        shape = (len(received.x), self.shape.hidden)
        block = self.simulator.allocate(rank, max(1, shape[0] * shape[1] * 2))
        self._native.expert_transform(self.simulator.handle, rank, block.address)
        return block.array(shape, BF16)

    def prove(
        self, tokens: Sequence[int], topk_idx: Sequence[NDArray[Any]], bucket: int, seed: int, exchanges: int = 1
    ) -> None:
        """Exchange fresh payload and compare every byte with the reference.

        The exchanges run free, one behind the other, over poisoned memory and through an expert-dependent transform.

        Args:
            tokens: of each source.
            topk_idx: [T, K] of each source; rows past its tokens are ignored.
            bucket: of every exchange.
            seed: of the payload.
            exchanges: how many.

        Raises:
            MismatchError: the first difference.
        """
        load = Load([ids[:count] for ids, count in zip(topk_idx, tokens, strict=True)])
        self.prove_loads([load] * exchanges, bucket, seed)

    def prove_loads(self, loads: Sequence[Load], bucket: int, seed: int) -> None:
        """`prove`, with routes of its own for each exchange.

        Raises:
            MismatchError: the first difference.
        """
        self._group.require_no_capture("prove")
        if not loads:
            raise ShapeError("exchanges", "1 or more", 0, "A proof of no exchange proves nothing.")
        self._native.sim_set_payload(self.simulator.handle, 1)
        try:
            proof.prove(self, loads, bucket, seed)
        finally:
            self._native.sim_set_payload(self.simulator.handle, int(self._mode != "time"))

    def poison(self, bucket: int) -> None:
        """Fill what an exchange of that bucket writes, on every rank, with bytes of ones.

        Raises:
            CapacityError, ShapeError: no bucket of this group.
        """
        self.shape.check_bucket(0, bucket)
        for rank in range(self.layout.num_ranks):
            self._native.sim_poison(self.simulator.handle, rank, bucket, _POISON)

    def time_exchanges(
        self,
        loads: Sequence[Load],
        bucket: int,
        collect: Literal["copy"] = "copy",
    ) -> Timing:
        """Time exchanges that run free, one behind the other, as the replay of a graph does.

        Args:
            loads: what the sources send in each timed exchange; a warm-up of the first two (FP8: of all) precedes them.
            bucket: of every exchange.
            collect: "copy".

        Returns:
            The round trips of every rank in simulated us. The FFN passes what it received as its result, or, for FP8,
            one BF16 buffer of its own that nothing writes.
        """
        if collect != "copy":
            raise ShapeError("collect", "copy", collect, "This build collects by copy.")
        self._native.sim_set_payload(self.simulator.handle, int(self._mode != "time"))
        self.simulator.take_trace()
        reads_fixed_rows = self.shape.dtype.groups_per_word > 0
        warm_up = loads if reads_fixed_rows else loads[:_WARM_UP_EXCHANGES]  # until all that are read lie in L2
        for load in [*warm_up, *loads]:
            self._pass_through(load.topk_idx, load.bucket or bucket)
        self.run()
        return timing.of_trace(self.simulator.take_trace(), len(loads))

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.layout.num_ranks:
            raise ShapeError("rank", f"0..{self.layout.num_ranks - 1}", rank, f"{self.layout} has no other ranks.")

    def _native_shape(self) -> ShapeStruct:
        shape = self.shape
        return ShapeStruct(
            self.layout.attention_ranks,
            self.layout.ffn_ranks,
            shape.hidden,
            shape.num_experts,
            shape.top_k,
            shape.capacity,
            _DTYPES[shape.dispatch_dtype],
            shape.transport_sms,
            _PROTOCOLS[self.arm.protocol],
            controls.bits(self.arm),
            shape.expert_alignment,
        )

    def _pass_through(self, topk_idx: Sequence[NDArray[Any]], bucket: int) -> None:
        for source, ids in zip(self.sources, topk_idx, strict=True):
            source.source_dispatch(self._zeros(len(ids)), ids, bucket=bucket)
        for ffn in self.ffns:
            received = ffn.ffn_receive(bucket=bucket)
            ffn.ffn_reply(received, received.x if received.scales is None else self._result(ffn.rank, len(received.x)))
        for source in self.sources:
            source.source_collect()

    def _zeros(self, tokens: int) -> object:
        """What a source sends where only times count."""
        dtype, hidden = self.shape.dtype, self.shape.hidden
        rows = np.zeros((tokens, hidden), inputs.element(dtype))
        words = dtype.scale_bytes(hidden) // 4
        return (rows, np.zeros((tokens, words), np.uint32)) if words else rows

    def _result(self, rank: int, rows: int) -> NDArray[Any]:
        """The fixed result of an FFN rank that receives FP8: as many rows of one BF16 buffer."""
        if rank not in self._results or len(self._results[rank]) < rows:
            self._results[rank] = self.empty(rank, (rows, self.shape.hidden), BF16)
        return self._results[rank][:rows]
