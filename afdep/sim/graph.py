"""Captured work of simulated ranks: what a CUDA graph is on a device."""

from collections.abc import Iterator
from contextlib import contextmanager

from afdep.errors import OrderError
from afdep.sim.session import Member, Session


class Graph:
    """Launches as they were captured, arguments included.

    A replay reads and writes the memory that the capture used: pass arrays of `World.empty` and change them in place
    between replays. Host decisions taken at capture (shapes, buckets, whether there are weights) are part of the graph.
    """

    def __init__(self, session: Session):
        self._session = session
        self._number: int | None = None
        self._memory: list[object] = []
        self._groups: set[Member] = set()
        session.capturing = True

    def end_capture(self) -> None:
        """Take what was captured, and the memory it uses."""
        self._number = self._session.simulator.native.sim_end_capture(self._session.simulator.handle)
        self._memory, self._groups = self._session.captured()
        self._session.capturing = False

    def replay(self) -> None:
        """Enqueue everything captured once more; `World.run` lets it happen.

        Raises:
            OrderError: inside the block that captures it.
            DeadBufferError: Buffers that it uses have failed.
        """
        for group in self._groups:
            group.require_alive()
        if self._number is None:
            raise OrderError(
                "replay: expected a graph whose capture has ended, received one that is being captured.",
                "Leave the `with world.capture()` block first.",
            )
        self._session.hold(self._memory)
        self._session.occupy(self._groups)
        self._session.simulator.native.sim_replay(self._session.simulator.handle, self._number)


@contextmanager
def capturing(session: Session) -> Iterator[Graph]:
    """Record what the block enqueues; see `World.capture`."""
    session.require_no_capture("capture")
    _require_whole_exchanges(session, "begin")
    held, busy = session.captured()  # by what is enqueued and not run yet
    session.simulator.native.sim_begin_capture(session.simulator.handle)
    graph = Graph(session)
    try:
        yield graph
    finally:
        graph.end_capture()
        session.hold(held)
        session.occupy(busy)
    _require_whole_exchanges(session, "end")


def _require_whole_exchanges(session: Session, where: str) -> None:
    open_ranks = sorted(rank for group in session.groups for rank in group.open_ranks)
    if open_ranks:
        raise OrderError(
            f"capture: expected no open exchange at its {where}, received one on rank {open_ranks[0]}.",
            "Capture whole exchanges: dispatch and collect, receive and reply, on every rank.",
        )
