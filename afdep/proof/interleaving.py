"""Exchanges of several Buffers in flight together, each dispatched and combined apart, and checked byte by byte."""

from collections.abc import Sequence

from afdep.errors import MismatchError
from afdep.interface import Received
from afdep.proof import payload
from afdep.proof.exchanges import Exchange, check, combine, dispatch
from afdep.reference import Sent
from afdep.routing import Load
from afdep.sim.buffers import Buffers

_PAYLOAD_STRIDE = 1_000_003


class Flight:
    """The exchanges of one set of Buffers, in order: at most one of them dispatched and not yet combined.

    Args:
        buffers: their Buffers; payload must be on.
    """

    def __init__(self, buffers: Buffers):
        self.buffers = buffers
        self.exchanges: list[Exchange] = []
        self._open: tuple[list[Sent], list[Received]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether an exchange was dispatched and not yet combined."""
        return self._open is not None

    def dispatch(self, load: Load, bucket: int, seed: int) -> None:
        """Enqueue the first half of an exchange of fresh payload, on every rank."""
        sent = payload.draw(self.buffers, load, seed)
        self._open = sent, dispatch(self.buffers, sent, load.bucket or bucket)

    def combine(self) -> None:
        """Enqueue the second half of the open exchange, through the expert-dependent transform."""
        assert self._open is not None
        sent, received = self._open
        self._open = None
        self.exchanges.append(Exchange(sent, received, combine(self.buffers, received)))

    def check(self) -> None:
        """Check every exchange, once it has run.

        Raises:
            MismatchError: the first difference.
        """
        check(self.buffers, self.exchanges)


def prove_interleaved(
    all_buffers: Sequence[Buffers], all_loads: Sequence[Sequence[Load]], order: Sequence[int], seed: int
) -> None:
    """Run exchanges of several Buffers in flight together, over poisoned memory, and check them.

    Args:
        all_buffers: of one World; payload must be on.
        all_loads: what the sources send in each exchange, set by set of Buffers.
        order: whose call comes next, by index of the set: a dispatch and a combine in turn, twice each exchange.
        seed: of the payload, which differs from exchange to exchange.

    Raises:
        MismatchError: the first difference, with notes that name its exchange and its Buffers.
    """
    flights = [Flight(buffers) for buffers in all_buffers]
    for buffers in all_buffers:
        buffers.poison(buffers.shape.capacity)
    remaining = [iter(loads) for loads in all_loads]
    for step, index in enumerate(order):
        flight = flights[index]
        if flight.is_open:
            flight.combine()
        else:
            flight.dispatch(next(remaining[index]), flight.buffers.shape.capacity, seed + step * _PAYLOAD_STRIDE)
    all_buffers[0].run()
    for number, flight in enumerate(flights, 1):
        try:
            flight.check()
        except MismatchError as error:
            error.add_note(f"of Buffers {number} of {len(flights)}")
            raise
