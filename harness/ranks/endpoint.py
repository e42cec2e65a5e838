"""One process's end of an arm: opened once, it proves cells and times them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.core.identity import Identity
from harness.ranks.cells import Backend, Exchange, Row


@dataclass(frozen=True)
class Opening:
    """What is opened.

    Args:
        arm: canonical name.
        row: of the table.
        exchange: what its exchanges share.
        backend: how cells are timed.
    """

    arm: str
    row: Row
    exchange: Exchange
    backend: Backend


@dataclass(frozen=True)
class Measurement:
    """What timing a cell gave.

    Args:
        samples_us: round trips by rank, one a replay or exchange; on GPUs those of this rank.
        exchanges: that one sample holds.
        host_us: what the host took an exchange to enqueue it.
        calls: of the CUDA API an exchange, by name, where they were counted.
    """

    samples_us: Mapping[int, Sequence[float]]
    exchanges: int = 1
    host_us: float | None = None
    calls: Mapping[str, float] | None = None


class Endpoint(Protocol):
    """What a process measures.

    Args:
        roles: attention or ffn, by rank that it measures.
        identity: as the loaded library reports it.
        registered_bytes: of registered memory, or None where nobody says.
        facts: what else is worth keeping, as JSON takes it.
        loads: how many loads `time` takes: one for each exchange, or one for all.
    """

    identity: Identity
    registered_bytes: int | None
    loads: int

    @property
    def roles(self) -> Mapping[int, str]: ...

    @property
    def facts(self) -> Mapping[str, Any]: ...

    def prove(self, loads: Sequence[Any], bucket: int) -> None:
        """Run exchanges of these routes over poisoned memory, and raise MismatchError at the first wrong bit."""

    def time(self, loads: Sequence[Any], bucket: int) -> Measurement:
        """Time exchanges of these routes."""

    def close(self) -> None:
        """Give everything back; collective."""
