"""The ranks of a batch on the simulator: all of them in this process."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.core.identity import Identity
from harness.ranks import contract
from harness.ranks.cells import Cell
from harness.ranks.group import Endpoint, Group, Measurement
from harness.study import VoidError


class SimulatedGroup(Group):
    """Every rank of a batch."""

    def open(self, what: Cell) -> Endpoint:
        """A World of an arm.

        Raises:
            VoidError: the sources or the library are not the planned ones.
        """
        planned = self.session.plan.identity(what.arm, self.session.batch)
        found = contract.native_digest("sim")
        if planned is not None and found != planned.digest:
            raise VoidError(f"digest: the plan expects {planned.digest}, the sources give {found}")
        return self._opened(what.arm, SimulatedEnd(what, contract.built("sim")))


make = SimulatedGroup
"""The group of a process."""


class SimulatedEnd:
    """A World of an arm, made anew for each proof and each timing: what ran before must not show in a time."""

    def __init__(self, what: Cell, built: Mapping[str, Any]):
        self._what = what
        first = self._world()
        self.identity = Identity.from_report(first.identity)
        self.registered_bytes: int | None = int(first.registered_bytes)
        self.roles: Mapping[int, str] = {rank: str(first.layout.role(rank)) for rank in range(first.layout.num_ranks)}
        self.facts = built
        self.loads = what.backend.num_exchanges

    def prove(self, loads: Sequence[Any], bucket: int) -> None:
        """Prove exchanges of these routes bit for bit."""
        contract.prove(self._world(), list(loads), bucket, self._what.exchange.seed)

    def time(self, loads: Sequence[Any], bucket: int) -> Measurement:
        """Simulated round trips, one for each load."""
        timing = self._world().time_exchanges(list(loads), bucket, collect=self._what.exchange.collect)
        return Measurement(timing.per_rank_us)

    def close(self) -> None:
        """Nothing outlives its World."""

    def _world(self) -> Any:
        what = self._what
        return contract.modules().afdep.World(
            what.row.layout,
            **what.exchange.shape_of(what.row),
            arm=what.arm,
            machine=what.backend.machine,
            mode="time",
            seed=what.exchange.seed,
        )
