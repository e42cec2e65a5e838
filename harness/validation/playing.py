"""A trial from its opening to its outcome: played, compared, and held to what its case expects and claims."""

import time
from collections.abc import Sequence
from dataclasses import replace

from afdep.errors import AfdepError, DeviceAssertion
from harness.validation import course, roles
from harness.validation.cases import Trial
from harness.validation.comparing import Delivered, compare, turn_a_bit
from harness.validation.course import Tally
from harness.validation.endpoint import End, NotPlayableError, Open
from harness.validation.outcome import Outcome, judged
from harness.validation.simulated import open_end as simulated
from harness.validation.turns import Turn, Wrong, turns
from harness.validation.witness import Seen


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
    return _played(trial, end)


def _played(trial: Trial, end: End) -> Outcome:
    all_turns, tally = turns(trial, end.shape), Tally()
    try:
        course.play(trial, _AllRanks(end), all_turns, tally)
    except (AfdepError, course.UnexpectedError) as error:
        return _outcome(trial, end, tally, "failed", course.in_words(error))
    seen = Seen(
        *(trial, end.shape, all_turns),
        exact=tally.exact,
        free=tally.free,
        late=end.late,
        replays=end.replays,
        switches=dict(end.identity["switches"]),
        informed=tally.informed,
        found=tally.found,
    )
    return judged(_outcome(trial, end, tally, "ok", None), seen)


def _outcome(trial: Trial, end: End, tally: Tally, status: str, reason: str | None) -> Outcome:
    return Outcome(
        trial=trial,
        status=status,
        reason=reason,
        exchanges=tally.exact,
        free=tally.free,
        elements=tally.elements,
        native_digest=str(end.identity["digest"]),
        protocol=str(end.identity["protocol"]),
    )


def _of_roles(trial: Trial) -> Outcome:
    """A control on one role alone, where nothing but the comparison at construction can be had."""
    shape = trial.exchange_shape
    seen = Seen(trial, shape, (), refused=roles.refusals(shape, trial.arm))
    return judged(Outcome(trial, "ok", native_digest=roles.digest(), protocol="afdep"), seen)


class _AllRanks:
    """All ranks of an end as one, as `harness.validation.course.Player` says."""

    def __init__(self, end: End):
        self._end = end

    def play(self, turn: Turn) -> Delivered:
        return self._end.play(turn)

    def play_free(self, turns: Sequence[Turn]) -> list[Delivered]:
        return self._end.play_free(turns)

    def compare(self, turn: Turn, brought: Delivered) -> int:
        return compare(self._end.shape, turn.sent, brought)

    def with_a_bit_turned(self, brought: Delivered, where: str) -> Delivered:
        return turn_a_bit(brought, where)

    def place(self, route: Wrong | DeviceAssertion) -> tuple[object, ...]:
        return (route.name, route.rank, route.token, route.lane, route.expert)

    def is_poisoned(self) -> bool:
        return self._end.poisoned_results()

    def count_informed(self) -> int:
        return len(self._end.informed_ranks)
