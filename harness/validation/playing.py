"""A trial from its opening to its outcome: played, compared, and held to what its case expects and claims."""

import time
from collections.abc import Sequence
from dataclasses import replace

from afdep.errors import AfdepError, DeviceAssertion, MismatchError
from afdep.layout import Layout
from afdep.shapes import ExchangeShape
from harness.validation import roles
from harness.validation.cases import Trial
from harness.validation.comparing import Delivered, compare, turn_a_bit
from harness.validation.endpoint import End, NotPlayableError, Open
from harness.validation.outcome import Outcome, judged
from harness.validation.simulated import open_end as simulated
from harness.validation.turns import Turn, turns
from harness.validation.witness import Seen


class _UnexpectedError(Exception):
    """A trial that ended otherwise than its case expects."""


def perform(trial: Trial, open_end: Open | None = None) -> Outcome:
    """Play a trial.

    Args:
        trial: what to play.
        open_end: how its ranks are made, by default on the simulator.
    """
    started = time.process_time()
    outcome = _perform(trial, open_end or simulated)
    return replace(outcome, cpu_s=time.process_time() - started)


def _perform(trial: Trial, open_end: Open) -> Outcome:
    try:
        if trial.case.one_role:
            return _of_roles(trial)
        end = open_end(trial)
    except NotPlayableError as void:
        return Outcome(trial, "void", str(void))
    play = _Play(trial, end)
    try:
        play.all()
    except (AfdepError, _UnexpectedError) as error:
        return play.outcome("failed", _in_words(error))
    return play.judged()


def _of_roles(trial: Trial) -> Outcome:
    """A control on one role alone, where nothing but the comparison at construction can be had."""
    shape = _shape(trial)
    seen = Seen(trial, shape, (), refused=roles.refusals(shape, trial.arm))
    return judged(Outcome(trial, "ok", native_digest=roles.digest(), protocol="afdep"), seen)


def _shape(trial: Trial) -> ExchangeShape:
    told = trial.world_fields()
    del told["arm"]
    return ExchangeShape(**(told | {"layout": Layout.parse(trial.layout)}))


class _Play:
    """A trial while it is played."""

    def __init__(self, trial: Trial, end: End):
        self.trial, self.end = trial, end
        self.elements = 0
        self.seen = Seen(trial, end.shape, turns(trial, end.shape), switches=dict(end.identity["switches"]))

    def all(self) -> None:
        """Every exchange, and the end that the case expects."""
        for turn in self.seen.turns:
            if turn.wrong is None:
                self._exact(turn)
            else:
                self._refused(turn)
        if self.trial.case.runs_free and self.trial.mode == "eager":
            self._free(self.seen.turns)
        self.seen.late, self.seen.replays = self.end.late, self.end.replays

    def _exact(self, turn: Turn) -> None:
        delivered = self.end.play(turn)
        self.elements += compare(self.end.shape, turn.sent, delivered)
        self.seen.exact += 1
        if self.trial.case.corrupted and turn is self.seen.turns[-1]:
            self._corrupt(turn, delivered, self.trial.case.corrupted)

    def _free(self, all_turns: Sequence[Turn]) -> None:
        for turn, delivered in zip(all_turns, self.end.play_free(all_turns), strict=True):
            self.elements += compare(self.end.shape, turn.sent, delivered)
            self.seen.exact += 1
            self.seen.free += 1

    def _corrupt(self, turn: Turn, delivered: Delivered, where: str) -> None:
        try:
            compare(self.end.shape, turn.sent, turn_a_bit(delivered, where))
        except MismatchError:
            self.seen.found += 1

    def _refused(self, turn: Turn) -> None:
        wrong = turn.wrong
        assert wrong is not None
        try:
            self.end.play(turn)
        except DeviceAssertion as error:
            named = (error.name, error.rank, error.token, error.lane, error.expert)
            planted = (wrong.name, wrong.rank, wrong.token, wrong.lane, wrong.expert)
            if named != planted:
                raise _UnexpectedError(f"expected the assertion {planted}, received {named}") from error
        else:
            raise _UnexpectedError(f"expected the assertion {wrong.name}, received a result")
        self.seen.informed = len(self.end.informed_ranks)
        if not self.end.poisoned_results():
            raise _UnexpectedError("expected NaN in what a failed exchange collected, received numbers")

    def outcome(self, status: str, reason: str | None) -> Outcome:
        """What came of it so far."""
        identity = self.end.identity
        return Outcome(
            trial=self.trial,
            status=status,
            reason=reason,
            exchanges=self.seen.exact,
            free=self.seen.free,
            elements=self.elements,
            native_digest=str(identity["digest"]),
            protocol=str(identity["protocol"]),
        )

    def judged(self) -> Outcome:
        """What came of it, once it is held to what its case claims."""
        return judged(self.outcome("ok", None), self.seen)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no message')}"
