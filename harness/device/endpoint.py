"""One rank's end of an arm on GPUs: made once a process, it proves cells and times them."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.identity import Identity
from harness.plan import Cell
from harness.session import Session


@dataclass(frozen=True)
class Measurement:
    """What timing a cell gave on one rank.

    Args:
        samples_us: round trips, one a replay.
        exchanges: that one replay held.
        host_us: what the host took an exchange to enqueue it.
        calls: of the CUDA API an exchange, by name, where they were counted.
    """

    samples_us: Sequence[float]
    exchanges: int
    host_us: float
    calls: Mapping[str, float] | None = None


class Endpoint(Protocol):
    """What a rank process measures.

    Args:
        role: attention or ffn.
        identity: as the loaded library reports it.
        registered_bytes: of registered memory, or None where nobody says.
        facts: what else is worth keeping, as JSON takes it; `device` names the GPU.
    """

    role: str
    identity: Identity
    registered_bytes: int | None
    facts: Mapping[str, Any]

    def prove(self, loads: Sequence[Any], cell: Cell) -> None:
        """Run exchanges of these routes, and raise MismatchError at the first wrong bit."""

    def time(self, load: Any, cell: Cell) -> Measurement:
        """Time exchanges of these routes, and check what they delivered."""

    def close(self) -> None:
        """Give everything back; collective."""


class NotMeasurableError(Exception):
    """Why an arm cannot be measured here although nothing failed: its cells are void."""


# As harness.arms names them, which loads the library: a rank checks its sources before it does.
_EXTERNAL = {"nccl": "harness.device.nccl", "deepep": "harness.device.deepep"}


Opening = Callable[[Session, int], Endpoint]
"""Makes a rank's end of a session's arm; collective. Raises NotMeasurableError where the arm needs what is missing."""


def opening(session: Session) -> Opening:
    """How to open the session's arm, with all that it needs imported, and no GPU touched."""
    module = importlib.import_module(_EXTERNAL.get(session.arm.identity.protocol, "harness.device.own"))
    opens: Opening = module.open_end
    return opens
