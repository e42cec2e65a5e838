"""What all Buffers of a World share: the simulator, its runs, the capture under way, and the memory in use."""

import weakref
from collections.abc import Iterable, Sequence
from typing import Protocol

from afdep.errors import AfdepError, OrderError
from afdep.sim.simulator import Simulator


class Member(Protocol):
    """What takes part in the runs of a session: the Buffers of one exchange."""

    open_ranks: set[int]
    """Ranks between the two calls of an exchange."""

    def settle(self) -> AfdepError | None:
        """After a run: the failure that ended these Buffers in it, if one did."""

    def end(self, error: AfdepError) -> None:
        """These Buffers are dead."""

    def require_alive(self) -> None:
        """Raise DeadBufferError after a failure."""


class Session:
    """The runs of one simulator.

    Args:
        simulator: its memory and kernels.
        moves_payload: whether rows are moved, outside of proofs.
    """

    def __init__(self, simulator: Simulator, moves_payload: bool):
        self.simulator = simulator
        self.moves_payload = moves_payload
        self.runs = 0
        self.capturing = False
        self._groups: list[weakref.ref[Member]] = []
        self._busy: set[Member] = set()
        self._held: list[object] = []

    def join(self, group: Member) -> None:
        """A group takes part in every run from now on, as long as it lives."""
        self._groups.append(weakref.ref(group))

    @property
    def groups(self) -> list[Member]:
        """The groups that somebody still holds, the first made first."""
        return [group for reference in self._groups if (group := reference()) is not None]

    def run(self) -> None:
        """Run everything enqueued to its end, of all groups; see `World.run`."""
        self.require_no_capture("run")
        self.runs += 1
        groups = self.groups
        try:
            self.simulator.run()
        except AfdepError as error:
            for group in groups:
                group.end(error)
            raise
        finally:
            self._held.clear()
            self._busy.clear()
        failures = [failure for failure in (group.settle() for group in groups) if failure is not None]
        if failures:
            raise failures.pop(0)  # left in the list, it would hold this frame and with it the simulator

    def hold(self, memory: Sequence[object]) -> None:
        """Keep memory until the kernels that use it are done."""
        self._held.extend(memory)

    def occupy(self, groups: Iterable[Member]) -> None:
        """These groups have work to be run."""
        self._busy.update(groups)

    def captured(self) -> tuple[list[object], set[Member]]:
        """The memory and the groups in use by what was enqueued since the last run, given up to the caller."""
        held, self._held = self._held, []
        busy, self._busy = self._busy, set()
        return held, busy

    def owns(self, rank: int, address: int) -> bool:
        """Whether the address is simulated memory of the rank."""
        return bool(self.simulator.native.sim_owner(self.simulator.handle, address) == rank)

    def set_payload(self, moves: bool) -> None:
        """Whether rows are moved from now on."""
        self.simulator.native.sim_set_payload(self.simulator.handle, int(moves))

    def require_no_capture(self, call: str) -> None:
        """Refuse a call that makes no sense while a graph is captured.

        Raises:
            OrderError: a graph is being captured.
        """
        if self.capturing:
            raise OrderError(
                f"{call}: expected no capture under way, received {call} inside a `with world.capture()` block.",
                "Leave the block first: what it enqueues runs when its graph is replayed.",
            )
