"""What plays the exchanges of a trial: all ranks behind one interface."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from afdep.shapes import ExchangeShape
from harness.validation.cases import Trial
from harness.validation.comparing import Delivered
from harness.validation.turns import Turn


class NotPlayableError(Exception):
    """Why a trial cannot be played here although nothing failed: it is void."""


class End(Protocol):
    """All ranks of a group, as far as a trial plays them.

    Args:
        shape: of its exchanges.
        identity: as the loaded library reports it: digest, protocol and switches.
        late: exchanges so far that show the pause of their case.
        replays: graphs replayed so far.
    """

    shape: ExchangeShape
    identity: Mapping[str, Any]
    late: int
    replays: int

    def play(self, turn: Turn) -> Delivered:
        """One exchange to its end, over poisoned memory, in the trial's mode, with its pause.

        Raises:
            AfdepError: it failed.
        """

    def play_free(self, turns: Sequence[Turn]) -> list[Delivered]:
        """Exchanges one behind the other; what FFN ranks received is given of the last one alone."""

    def poisoned_results(self) -> bool:
        """Whether nothing that the failed exchange collected can be taken for a result."""

    @property
    def informed_ranks(self) -> Sequence[int]:
        """Ranks that were told of a failure."""


Open = Callable[[Trial], End]
"""Makes the ranks of a trial. Raises NotPlayableError where they cannot be had."""
