"""Trials on the simulator: all ranks of a World in this process."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import numpy as np

from afdep import Arm, KernelTime, ShapeError, World, agreement
from afdep.proof import graphs
from afdep.reference import Sent
from harness.ranks import contract
from harness.studies.validate.cases import EXACT
from harness.studies.validate.exchange import Brought, Setup
from harness.studies.validate.protocol import LOOK, Backend, UnexpectedError
from harness.studies.validate.ranks import Inputs, Ranks
from harness.study import VoidError


def make(group: Any) -> "Simulator":
    """The backend of a process, with the library built."""
    group.session.opened(**contract.built("sim"))
    return Simulator()


class Simulator(Backend):
    """All ranks of each trial."""

    def open(self, setup: Setup) -> "SimulatedRanks":
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

    def meet(self, problem: str | None = None) -> None:
        """There is nobody to meet."""


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

    def settle(self, brought: Brought) -> None:
        """Run the World, and look for the pause in its trace."""
        self.world.simulator.take_trace()
        self.world.run()
        trace = self.world.simulator.take_trace()
        self.late += self._shows_source(trace) or self._shows_ffn(trace)

    def fetched(self, found: Any) -> Any:
        """It is on the host."""
        return found

    def _shows_source(self, trace: Sequence[KernelTime]) -> bool:
        """Whether the late source's dispatch began so much later than the first one of all."""
        starts = {one.rank: one.start_us for one in trace if one.name == "dispatch"}
        pause = self.setup.case.delay_source_us
        return pause > 0 and starts[self.sources[0].rank] - min(starts.values()) >= pause

    def _shows_ffn(self, trace: Sequence[KernelTime]) -> bool:
        """Whether the late FFN rank's combine began so long after its expert transform had ended."""
        own = {one.name: one for one in trace if one.rank == self.ffns[-1].rank}
        pause = self.setup.case.delay_ffn_us
        return pause > 0 and own["combine"].start_us - own["expert_transform"].end_us >= pause
