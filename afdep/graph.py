"""Captured work of a simulated group: what a CUDA graph is on a device."""

from afdep.errors import OrderError
from afdep.group import Group


class Graph:
    """Launches of a group as they were captured, arguments included.

    A replay reads and writes the memory that the capture used: pass arrays of `World.empty` and change them in place
    between replays. Host decisions taken at capture (shapes, buckets, whether there are weights) are part of the graph.
    """

    def __init__(self, group: Group):
        self._group = group
        self._number: int | None = None
        self._memory: list[object] = []

    def end_capture(self) -> None:
        """Take what was captured, and the memory it uses."""
        self._number = self._group.simulator.native.sim_end_capture(self._group.simulator.handle)
        self._memory = self._group.captured()

    def replay(self) -> None:
        """Enqueue everything captured once more; `World.run` lets it happen.

        Raises:
            OrderError: inside the block that captures it.
        """
        self._group.require_alive()
        if self._number is None:
            raise OrderError(
                "replay: expected a graph whose capture has ended, received one that is being captured.",
                "Leave the `with world.capture()` block first.",
            )
        self._group.hold(self._memory)
        self._group.simulator.native.sim_replay(self._group.simulator.handle, self._number)
