"""The course of a trial, the same whoever plays it: exchanges compared, and the end that the case expects.

All ranks of a World play it as one, and each rank of a group of processes plays it by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from afdep.errors import DeviceAssertion, MismatchError
from harness.validation.cases import Trial
from harness.validation.turns import Turn, Wrong


class UnexpectedError(Exception):
    """A trial that ended otherwise than its case expects."""


@dataclass(kw_only=True)
class Tally:
    """What came of the exchanges so far.

    Args:
        elements: compared without a difference.
        exact, free, informed, found: as in `harness.validation.witness.Seen`.
    """

    exact: int = 0
    free: int = 0
    elements: int = 0
    informed: int = 0
    found: int = 0


class Player(Protocol):
    """All ranks, or one of them, as far as they play a trial. What an exchange brought is theirs alone to read."""

    def play(self, turn: Turn) -> Any:
        """One exchange to its end, in the trial's mode, with its pause: what it brought.

        Raises:
            AfdepError: it failed.
        """

    def play_free(self, turns: Sequence[Turn]) -> Sequence[Any]:
        """Exchanges one behind the other: what each brought, or None where the next has overwritten it."""

    def compare(self, turn: Turn, brought: Any) -> int:
        """Compare what an exchange brought with the reference: how many elements were compared.

        Raises:
            MismatchError: the first difference.
        """

    def with_a_bit_turned(self, brought: Any, where: str) -> Any:
        """The same with one wrong bit, or None where it has no rows of that kind; `where` is one of CORRUPTED."""

    def place(self, route: Wrong | DeviceAssertion) -> tuple[object, ...]:
        """What an assertion must say of a wrong route."""

    def is_poisoned(self) -> bool:
        """Whether nothing that the failed exchange collected can be taken for a result."""

    def count_informed(self) -> int:
        """How many ranks have been told of the failure."""


def play(trial: Trial, player: Player, turns: Sequence[Turn], tally: Tally) -> None:
    """Play every exchange of a trial, and the end that its case expects.

    Args:
        trial: what is played.
        player: plays it.
        turns: its exchanges.
        tally: takes what came of them, whatever this ends with.

    Raises:
        UnexpectedError: another end.
        AfdepError: an exchange failed, or brought something else than it should.
    """
    for turn in turns:
        if turn.wrong is not None:
            _refused(player, turn, turn.wrong, tally)
            continue
        brought = player.play(turn)
        tally.elements += player.compare(turn, brought)
        tally.exact += 1
        if trial.case.corrupted and turn is turns[-1]:
            _corrupt(player, turn, brought, trial.case.corrupted, tally)
    if trial.case.runs_free and trial.mode == "eager":
        _free(player, turns, tally)


def _free(player: Player, turns: Sequence[Turn], tally: Tally) -> None:
    for turn, brought in zip(turns, player.play_free(turns), strict=True):
        tally.elements += 0 if brought is None else player.compare(turn, brought)
        tally.exact += 1
        tally.free += 1


def _corrupt(player: Player, turn: Turn, brought: Any, where: str, tally: Tally) -> None:
    """The comparison must find a bit that is turned in what the exchange brought, if it brought such rows."""
    corrupted = player.with_a_bit_turned(brought, where)
    if corrupted is None:
        return
    try:
        player.compare(turn, corrupted)
    except MismatchError:
        tally.found += 1
    else:
        raise UnexpectedError("expected the comparison to find a bit that was turned, received no difference")


def _refused(player: Player, turn: Turn, wrong: Wrong, tally: Tally) -> None:
    """The exchange with a wrong route must raise it, with its place, and leave no result."""
    try:
        player.play(turn)
    except DeviceAssertion as error:
        named, planted = player.place(error), player.place(wrong)
        if named != planted:
            raise UnexpectedError(f"expected the assertion {planted}, received {named}") from error
    else:
        raise UnexpectedError(f"expected the assertion {wrong.name}, received a result")
    if not player.is_poisoned():
        raise UnexpectedError("expected NaN in what a failed exchange collected, received numbers")
    tally.informed = player.count_informed()


def in_words(error: Exception) -> str:
    """An exception in one line; what it was expected to be says enough by itself."""
    line = next(iter(str(error).splitlines()), "no message")
    return line if isinstance(error, UnexpectedError) else f"{type(error).__name__}: {line}"
