"""One Buffer on every rank of a World: what a World is, and what `World.add_buffers` makes beside it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from ctypes import byref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from afdep import abi, controls
from afdep.arms import Arm
from afdep.errors import OrderError, ShapeError
from afdep.reference import BF16
from afdep.shapes import ExchangeShape
from afdep.sim.buffer import SimBuffer
from afdep.sim.graph import Graph, capturing
from afdep.sim.group import Group
from afdep.sim.session import Session

_POISON = 0xFF


class Buffers:
    """A Buffer on every simulated rank, all of one shape. Each has a window and an ordered stream of its own.

    Args:
        session: the simulated ranks.
        shape: of the exchanges.
        arm: their protocol and its switches.

    Raises:
        ShapeError, OutOfMemoryError: what the protocol, the machine or its memory does not carry.
    """

    def __init__(self, session: Session, shape: ExchangeShape, arm: Arm):
        shape.check_protocol(arm.protocol)
        self.layout = shape.layout
        self.shape = shape
        self.arm = arm
        self.simulator = session.simulator
        self._session = session
        self._native = session.simulator.native
        self._native_shape = abi.struct_of(shape, arm)
        self._handle = self.simulator.add_buffers(self._native_shape)
        self._group = Group(session, shape, self._handle)
        self._buffers = [SimBuffer(self._group, rank) for rank in range(self.layout.num_ranks)]

    @property
    def identity(self) -> dict[str, Any]:
        """What runs, as the loaded library reports it: digest, target, fiber, protocol and switches."""
        info = self._native.build_info
        return {
            "digest": info.digest,
            "target": info.target,
            "fiber": info.fiber,
            "protocol": abi.protocol_of(self._native_shape),
            "switches": dict(controls.from_bits(self._native_shape.switches)),
        }

    @property
    def handle(self) -> int:
        """Of their native state."""
        return self._handle

    @property
    def registered_bytes(self) -> int:
        """Registered transport memory of a rank, without the workspace."""
        return int(self._native.inbox_bytes(byref(self._native_shape)))

    def buffer(self, rank: int) -> SimBuffer:
        """The Buffer of a rank.

        Raises:
            ShapeError: no such rank.
        """
        self._check_rank(rank)
        return self._buffers[rank]

    @property
    def ffns(self) -> list[SimBuffer]:
        """The FFN ranks' Buffers."""
        return [self._buffers[rank] for rank in self.layout.ffn_rank_ids]

    @property
    def sources(self) -> list[SimBuffer]:
        """The Attention ranks' Buffers, by source index."""
        return [self._buffers[rank] for rank in self.layout.attention_rank_ids]

    def run(self) -> None:
        """Run everything enqueued to its end, on all Buffers of the World.

        Buffers of one set live and die together; a set that fails leaves the others alive, and its error is raised when
        all that was enqueued has run. After a deadlock or a memory fault every set is dead.

        Raises:
            DeviceAssertion: a route that names no expert, or one expert twice; every rank has been told.
            PeerRefusedError: a rank refused its call.
            DeadlockError: a wait that nothing can end, with every such wait.
            MemoryFaultError: a kernel left its memory.
            DeadBufferError: these Buffers failed before.
        """
        self._group.require_alive()
        self._session.run()

    def empty(self, rank: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A zeroed array in a rank's memory, read and written in place by what is enqueued and by graphs.

        Raises:
            ShapeError: no such rank.
        """
        self._check_rank(rank)
        block = self.simulator.allocate(rank, max(1, int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize))
        return block.array(shape, dtype)

    def capture(self) -> AbstractContextManager[Graph]:
        """Record the calls of a `with` block instead of enqueueing them: whole exchanges, of every rank and Buffer.

        Returns:
            A context that gives the graph, to be replayed once the block has ended.

        Raises:
            OrderError: on entering inside another capture, or where an exchange is open as the block begins or ends:
                replays of half an exchange would break the order that the protocol rests on.
        """
        self._group.require_alive()
        return capturing(self._session)

    @property
    def informed_ranks(self) -> list[int]:
        """Ranks that were told of a failure, in order."""
        return self._group.informed_ranks

    def delay(self, rank: int, delay_us: float) -> None:
        """Enqueue a pause: what comes next on the rank's Buffer begins so much later.

        Args:
            rank: the late one.
            delay_us: in simulated us, at least 0.

        Raises:
            ShapeError: no such rank, or a negative pause.
        """
        self._check_rank(rank)
        if not delay_us >= 0:
            raise ShapeError("delay_us", "0 or more", delay_us, "A pause ends after it began.")
        self._native.sim_delay(self._handle, rank, delay_us * 1e3)

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
        self._native.expert_transform(self._handle, rank, block.address)
        return block.array(shape, BF16)

    @contextmanager
    def moving_payload(self) -> Iterator[None]:
        """A context in which the rows are moved, in the mode `time` too.

        Raises:
            OrderError: on entering inside a capture.
        """
        self._session.require_no_capture("moving_payload")
        self._session.set_payload(True)
        try:
            yield
        finally:
            self._session.set_payload(self._session.moves_payload)

    def poison(self, bucket: int) -> None:
        """Fill what an exchange of that bucket writes, on every rank, with bytes of ones.

        Raises:
            CapacityError, ShapeError: no bucket of this group.
        """
        self.shape.check_bucket(0, bucket)
        for rank in range(self.layout.num_ranks):
            self._native.sim_poison(self._handle, rank, bucket, _POISON)

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.layout.num_ranks:
            raise ShapeError("rank", f"0..{self.layout.num_ranks - 1}", rank, f"{self.layout} has no other ranks.")
