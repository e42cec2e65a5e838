"""Trials on the simulator: all ranks of a World in this process."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import numpy as np

from afdep import Arm, ShapeError, World, agreement
from afdep.proof import graphs
from afdep.reference import Sent
from harness.studies.validate.cases import EXACT
from harness.studies.validate.exchange import Brought, Setup
from harness.studies.validate.protocol import LOOK, UnexpectedError
from harness.studies.validate.ranks import Inputs, Ranks
from harness.study import VoidError


def open_ranks(setup: Setup, group: Any) -> "SimulatedRanks":
    """A World of the trial's shape.

    Raises:
        VoidError: the simulator, its machine or the arm has no such thing.
        AgreementError: ranks of which FFN ranks alone have a control refuse each other.
    """
    if setup.case.host_counts:
        raise VoidError("counts on the host are read back on GPUs alone")
    if setup.case.one_role:
        _compare_roles(setup)
    try:
        return SimulatedRanks(setup)
    except ShapeError as error:
        raise VoidError(error.problem) from error


def meet(problem: str | None = None) -> None:
    """There is nobody to meet."""


watched = nullcontext
"""Nothing hangs: a World whose ranks wait for ever says so."""


def _compare_roles(setup: Setup) -> NoReturn:
    """What ranks compare when they are made: the part of it that needs no GPU."""
    if setup.case.expects == EXACT:
        raise VoidError("the ranks of a simulated group have one arm, and this control may differ")
    arms = [Arm.parse(setup.arm(rank)) for rank in range(setup.shape.layout.num_ranks)]
    agreement.check([agreement.fields(setup.shape, arm, "one native tree") for arm in arms])
    raise UnexpectedError("expected ranks that refuse each other, received ranks that agree", LOOK)


class SimulatedRanks(Ranks):
    """The ranks of a World."""

    def __init__(self, setup: Setup):
        self.world = World(**setup.buffer_fields(), arm=setup.trial.arm, machine=setup.machine, mode="check")
        super().__init__(setup, [*self.world.ffns, *self.world.sources], self.world.identity)

    def num_informed(self) -> int:
        """The ranks that were told."""
        return len(self.world.informed_ranks)

    def arguments(self, sent: Sequence[Sent]) -> list[tuple[Any, Any, Any]]:
        """As they are."""
        return [(one.x if one.scales is None else (one.x, one.scales), one.topk_idx, one.topk_weights) for one in sent]

    def inputs(self, sent: Sequence[Sent]) -> list[Inputs]:
        """Memory of the World."""
        held = self.arguments(graphs.on_ranks(self.world, sent))
        counts = [self.world.empty(one.rank, (1,), np.int32) for one in self.sources]
        return list(map(Inputs, held, counts))

    def poison(self, bucket: int) -> None:
        """All ranks'."""
        self.world.poison(bucket)

    def transformed(self, ffn: Any, received: Any) -> Any:
        """The World's own."""
        return self.world.expert_transform(ffn.rank)

    def pause(self, rank: int, us: int) -> None:
        """A pause of the rank's Buffer."""
        if us:
            self.world.delay(rank, us)

    def capturing(self) -> AbstractContextManager[Any]:
        """A capture of the World."""
        return self.world.capture()

    def settle(self, brought: Brought) -> float:
        """Run the World. Its trace has the late FFN rank's combine after its transform, and all dispatches."""
        self.world.simulator.take_trace()
        self.world.run()
        trace = {(one.name, one.rank): one for one in self.world.simulator.take_trace()}
        if self.setup.case.delay_ffn_us:
            ffn = self.ffns[-1].rank
            return trace["combine", ffn].start_us - trace["expert_transform", ffn].end_us
        first_us = min(one.start_us for one in trace.values() if one.name == "dispatch")
        return trace["dispatch", self.sources[0].rank].start_us - first_us

    def fetched(self, found: Any) -> Any:
        """It is on the host."""
        return found
