"""The simulator's public face: a whole group of ranks in one process, on numpy arrays."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from afdep import build
from afdep.arms import Arm
from afdep.errors import ShapeError
from afdep.layout import Layout
from afdep.machine import Machine
from afdep.reference import BF16
from afdep.routing import Load
from afdep.shapes import ExchangeShape
from afdep.sim import inputs, native, timing
from afdep.sim.buffers import Buffers
from afdep.sim.native import OptionsStruct
from afdep.sim.session import Session
from afdep.sim.simulator import Simulator
from afdep.sim.timing import Timing

Mode = Literal["check", "time", "hunt"]

_WARM_UP_EXCHANGES = 2


class World(Buffers):
    """A group of simulated ranks with a Buffer each.

    Args:
        layout: a Layout, or its text.
        hidden, num_experts, top_k, capacity, dispatch_dtype, transport_sms, expert_alignment: see ExchangeShape.
        arm: an Arm, or its name.
        machine: the name of a machine file.
        mode: "check" moves every byte; "time" moves control bytes only (the times are the same) except in proofs;
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
        parsed = layout if isinstance(layout, Layout) else Layout.parse(layout)
        parsed_arm = arm if isinstance(arm, Arm) else Arm.parse(arm)
        shape = ExchangeShape(
            parsed, hidden, num_experts, top_k, capacity, dispatch_dtype, transport_sms, expert_alignment
        )
        shape.check_protocol(parsed_arm.protocol)
        if mode not in ("check", "time", "hunt"):
            raise ShapeError("mode", "check, time or hunt", mode, "Pick one of the three.")
        if fiber not in ("warp", "thread"):
            raise ShapeError("fiber", "warp or thread", fiber, "Pick one of the two.")
        if not 0 <= seed < 2**64:
            raise ShapeError("seed", "0..2**64 - 1", seed, "Seeds of schedules are 64 bits, unsigned.")
        machine = machine if isinstance(machine, Machine) else Machine.load(machine)
        library_ = native.load(library or build.build(fiber))
        options = OptionsStruct(int(mode != "time"), int(mode == "hunt"), seed)
        simulator = Simulator(library_, parsed.num_ranks, options, machine.constants())
        super().__init__(Session(simulator, moves_payload=mode != "time"), shape, parsed_arm)
        self._results: dict[int, NDArray[Any]] = {}

    def add_buffers(self, *, arm: Arm | str | None = None, **changes: Any) -> Buffers:
        """Another Buffer on every rank, as a process may have several: on the same SMs, links and clock.

        Nothing else is shared: exchanges of both may be in flight at once, in any order, and `run` runs all. The main
        kernels of all Buffers in flight must find room beside each other: where their transport SMs together are more
        than a rank has, ranks may wait for each other for ever (docs/architecture.md).

        Args:
            arm: by default the World's.
            changes: fields of ExchangeShape that differ from the World's: hidden, top_k, capacity, ...

        Returns:
            The Buffers, for as long as they are kept.

        Raises:
            ShapeError, LayoutError, ArmError, ControlError, OutOfMemoryError, TypeError
        """
        if isinstance(layout := changes.get("layout"), str):
            changes["layout"] = Layout.parse(layout)
        chosen = self.arm if arm is None else arm if isinstance(arm, Arm) else Arm.parse(arm)
        return Buffers(self._session, replace(self.shape, **changes), chosen)

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
        self._session.set_payload(self._session.moves_payload)
        self.simulator.take_trace()
        reads_fixed_rows = self.shape.dtype.groups_per_word > 0
        warm_up = loads if reads_fixed_rows else loads[:_WARM_UP_EXCHANGES]  # until all that are read lie in L2
        for load in [*warm_up, *loads]:
            self._pass_through(load.topk_idx, load.bucket or bucket)
        self.run()
        return timing.of_trace(self.simulator.take_trace(), len(loads))

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
