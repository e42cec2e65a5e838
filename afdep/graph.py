"""Captured work of a simulated group: what a CUDA graph is on a device."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from afdep.buffer import Buffer
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
        group.capturing = True

    def end_capture(self) -> None:
        """Take what was captured, and the memory it uses."""
        self._number = self._group.simulator.native.sim_end_capture(self._group.simulator.handle)
        self._memory = self._group.captured()
        self._group.capturing = False

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


@contextmanager
def capturing(group: Group, buffers: Sequence[Buffer]) -> Iterator[Graph]:
    """Record what the block enqueues; see `World.capture`."""
    group.require_alive()
    group.require_no_capture("capture")
    _require_whole_exchanges(buffers, "begin")
    group.captured()
    group.simulator.native.sim_begin_capture(group.simulator.handle)
    graph = Graph(group)
    try:
        yield graph
    finally:
        graph.end_capture()
    _require_whole_exchanges(buffers, "end")


def _require_whole_exchanges(buffers: Sequence[Buffer], where: str) -> None:
    open_ranks = [buffer.rank for buffer in buffers if not buffer.is_idle]
    if open_ranks:
        raise OrderError(
            f"capture: expected no open exchange at its {where}, received one on rank {open_ranks[0]}.",
            "Capture whole exchanges: dispatch and collect, receive and reply, on every rank.",
        )
