"""How a trial runs, the same on every backend: its exchanges compared, and the end that its case expects.

One process holds all ranks of a World; on GPUs each rank is a process that runs every trial in step with its peers. A
backend is a module with three functions:

- `open_ranks(setup, group)` gives the Ranks of a trial that this process holds. It is collective, and raises VoidError
  where they cannot be had although nothing failed, or the AfdepError over which they refused to be made.
- `meet(problem)` meets the other processes, so that one that fails leaves none behind: each says why it goes no
  further, or None. A process that fails goes to one meeting more, which is the next one of its peers wherever they are.
  It raises PeerFailedError where another goes no further, or is gone.
- `watched(group)` is a block that a trial runs in: a process that hangs in it is ended, and says where.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from afdep.device_errors import AgreementError, DeviceError
from afdep.errors import AfdepError, DeviceAssertion, MismatchError
from harness.errors import HarnessError
from harness.studies.validate.exchange import Brought, Setup, Turn, compare, turns, with_a_bit_turned
from harness.studies.validate.ranks import CONDITIONS, Ranks
from harness.study import VoidError

LOOK = "Look at that exchange: its trial says all that is drawn."


class UnexpectedError(HarnessError):
    """A trial that ended otherwise than its case expects."""


class PeerFailedError(HarnessError):
    """Another rank failed, and says why itself."""


class LostRankError(HarnessError):
    """Why a rank can run no other trial: its GPU is of no more use to this process."""


def perform(setup: Setup, backend: Any, group: Any) -> dict[str, Any]:
    """Run a trial from its opening to its end. Processes that fail leave it in step.

    Args:
        setup: of the trial.
        backend: the module that has them.
        group: of which this process holds one rank, or all.

    Returns:
        Facts of it: `void` or `failed` and why, or `told`, why it failed for the sake of another rank, which says so
        itself; `lost`, why this process can run no other trial; `count` of the coverage condition by this process,
        exchanges `exact` and `free`, and `elements`; of the library its `digest` and `protocol`; and `cpu_s` that it
        took of the processor.

    Raises:
        DeviceError: no rank was made, and this process can run no other trial.
    """
    cpu_s = time.process_time()
    try:
        opened = backend.open_ranks(setup, group)
    except VoidError as void:
        return {"void": str(void)}
    except DeviceError:
        raise
    except (AfdepError, UnexpectedError) as error:  # every rank refuses, and all are in step
        is_expected = isinstance(error, AgreementError) and setup.case.one_role and error.field in setup.switches
        num_ranks = setup.shape.layout.num_ranks if group.rank is None else 1
        facts: Mapping[str, Any] = {"count": num_ranks} if is_expected else {"failed": in_words(error)}
    else:
        facts = _run_in_step(opened, backend)
    return {**facts, "cpu_s": time.process_time() - cpu_s}


def _run_in_step(ranks: Ranks, backend: Any) -> dict[str, Any]:
    """Run the exchanges, tell the peers what came of them, and give everything back: the facts."""
    ended: dict[str, str] = {}
    try:
        run(ranks)
        backend.meet()
    except PeerFailedError as peer:
        ended = {"told": peer.problem}
    except Exception as error:  # of whatever kind: the peers must be told
        ended = {"failed": in_words(error)}
        with suppress(PeerFailedError):
            backend.meet(ended["failed"])
    try:
        ranks.close()
    except Exception as error:
        ended["lost"] = ended.get("failed", f"giving back: {in_words(error)}")
    counted = {} if ended else {"count": CONDITIONS[ranks.setup.case.condition][0](ranks)}
    seen = {name: getattr(ranks, name) for name in ("exact", "free", "elements")}
    return {**ended, **counted, **seen, **{name: ranks.identity[name] for name in ("digest", "protocol")}}


def run(ranks: Ranks) -> None:
    """Run every exchange of a trial, and the end that its case expects; the ranks hold what is seen, however it ends.

    Raises:
        UnexpectedError: another end.
        AfdepError: an exchange failed, or brought something else than it should.
    """
    setup = ranks.setup
    ranks.turns = turns(setup)
    for turn in ranks.turns:
        if turn.wrong is not None:
            _refused(ranks, turn, turn.wrong)
            continue
        brought = ranks.run(turn)
        _compare(ranks, turn, brought)
        if setup.case.corrupted and turn is ranks.turns[-1]:
            _corrupt(ranks, turn, brought)
    if setup.case.runs_free and setup.trial.mode == "eager":
        for turn, brought in zip(ranks.turns, ranks.run_free(ranks.turns), strict=True):
            _compare(ranks, turn, brought)
            ranks.free += 1


def _compare(ranks: Ranks, turn: Turn, brought: Brought) -> None:
    ranks.elements += compare(ranks.setup.shape, turn, brought)
    ranks.exact += 1


def _corrupt(ranks: Ranks, turn: Turn, brought: Brought) -> None:
    """The comparison must find a bit that is turned in what the exchange brought, if it brought such rows."""
    if (corrupted := with_a_bit_turned(ranks.setup.shape, brought, str(ranks.setup.case.corrupted))) is None:
        return
    try:
        compare(ranks.setup.shape, turn, corrupted)
    except MismatchError:
        ranks.found += 1
    else:
        raise UnexpectedError("expected the comparison to find a bit that was turned, received no difference", LOOK)


def _refused(ranks: Ranks, turn: Turn, wrong: DeviceAssertion) -> None:
    """The exchange with a wrong route must raise it, with its place, and leave no result."""
    try:
        ranks.run(turn)
    except DeviceAssertion as error:
        expected, received = _place(ranks, wrong), _place(ranks, error)
        if received != expected:
            raise UnexpectedError(f"expected the assertion {expected}, received {received}", LOOK) from error
    else:
        raise UnexpectedError(f"expected the assertion {wrong.name}, received a result", LOOK)
    if not ranks.is_poisoned():
        raise UnexpectedError("expected NaN in what a failed exchange collected, received numbers", LOOK)
    ranks.informed = ranks.num_informed()


def _place(ranks: Ranks, route: DeviceAssertion) -> tuple[object, ...]:
    """What an assertion must say of a wrong route: only the rank that sent it knows all of it."""
    own = (route.token, route.lane, route.expert) if route.rank in ranks.numbers else ()
    return (route.name, route.rank, *own)


def in_words(error: Exception) -> str:
    """An exception in one line; what it was expected to be says enough by itself."""
    line = next(iter(str(error).splitlines()), "no message")
    return line if isinstance(error, UnexpectedError) else f"{type(error).__name__}: {line}"
