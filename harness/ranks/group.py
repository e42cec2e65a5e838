"""What every group of ranks does for a study's program: settings, turns, checks of what was loaded, and its end."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.core.identity import Identity, Library
from harness.core.worker import MEASURE, Session
from harness.ranks import contract
from harness.ranks.cells import TRACE, Row
from harness.study import Edit, VoidError


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
    """One process's end of an arm: opened once, it proves cells and times them.

    Args:
        roles: attention or ffn, by rank that it measures.
        identity: as the loaded library reports it.
        registered_bytes: of registered memory, or None where nobody says.
        facts: what else is worth keeping, as JSON takes it.
        loads: how many loads `time` takes: one for each exchange, or one for all.
    """

    identity: Identity
    roles: Mapping[int, str]
    registered_bytes: int | None
    facts: Mapping[str, Any]
    loads: int

    def prove(self, loads: Sequence[Any], bucket: int) -> None:
        """Run exchanges of these routes over poisoned memory, and raise MismatchError at the first wrong bit."""

    def time(self, loads: Sequence[Any], bucket: int) -> Measurement:
        """Time exchanges of these routes."""

    def close(self) -> None:
        """Give everything back; collective."""


class Group:
    """The ranks of a batch: this process is one of them, or holds them all.

    Args:
        session: of the process.
    """

    def __init__(self, session: Session):
        self.session = session
        self.rank = session.rank
        self.settings: Any = session.plan.settings
        edited = self.built(session.batch.edits)
        self.library = None if edited is None else Path(edited.path)
        self.folder = Path.cwd()
        self._endpoints: list[Endpoint] = []

    def built(self, edits: Sequence[Edit]) -> Library | None:
        """The library of this rank's tree with some edits, as it was built for the batch; None for the tree's own."""
        libraries = dict(zip(self.session.batch.built, self.session.job.libraries, strict=False))
        return libraries.get(tuple(edits))

    def turn(self) -> None:
        """Wait until nobody else measures on this machine."""
        self.session.wait(MEASURE)

    def check(self, arm: str, loaded: Identity) -> dict[str, Any]:
        """What was loaded, as record fields.

        Raises:
            VoidError: it is not what the plan expects, or not from the slot.
        """
        module = Path(str(sys.modules["afdep"].__file__)).resolve()
        if not module.is_relative_to(self.session.slot):
            raise VoidError("afdep loaded from outside the slot")
        planned = self.session.plan.identity(arm, self.session.batch)
        if planned is not None and (different := planned.difference(loaded)) is not None:
            raise VoidError(different)
        return {
            "module_path": module.relative_to(self.session.slot).as_posix(),
            "safe_path": bool(sys.flags.safe_path),
            "loaded_digest": loaded.digest,
            "loaded_protocol": loaded.protocol,
            "loaded_switches": loaded.switches_text(),
        }

    def trace(self, row: Row) -> Any:
        """The recorded ids of a row, or None where it takes none.

        Raises:
            VoidError: they are not the planned ones.
        """
        kind, _, planned = row.routing.partition("@")
        if kind != TRACE:
            return None
        found = contract.modules().afdep.Trace.load(Path(str(self.session.job.trace)), row.num_experts)
        if found.digest != planned:
            raise VoidError(f"trace changed since the plan: {planned} planned, {found.digest} found")
        return found

    def close(self) -> None:
        """Give back what is open; collective."""
        for one in self._endpoints:
            one.close()
        self._endpoints.clear()

    def _opened(self, arm: str, end: Endpoint) -> Endpoint:
        """An endpoint that is what the plan expects, once its facts are said."""
        self._endpoints.append(end)
        checked = self.check(arm, end.identity)
        roles = {str(rank): role for rank, role in end.roles.items()}
        self.session.opened(**end.facts, registered_bytes=end.registered_bytes, loaded=checked, roles=roles)
        return end


make = Group
"""The group of a process without ranks."""
