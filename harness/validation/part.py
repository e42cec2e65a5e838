"""One rank's part of a trial, and the outcome that the parts of all ranks make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from afdep import proof
from afdep.arms import Arm
from afdep.errors import DeviceAssertion, MismatchError
from afdep.shapes import ExchangeShape
from harness.validation.cases import Trial
from harness.validation.comparing import compare_collected, compare_received
from harness.validation.turns import Turn, turns
from harness.validation.witness import Seen

PART, READY, LOST = "validation part", "validation ready", "validation lost"
"""What a rank says: of a trial (`trial`, its index, and `report`); once it can play (`seconds` that it took); and where
it leaves behind a trial because a rank, not always this one, can play no other.
"""


class PeerFailedError(Exception):
    """Another rank failed, and says why itself."""


@dataclass
class Report:
    """What a rank says of its part; plain data, as JSON takes it.

    Args:
        native_digest, protocol, switches: as its loaded library reports them.
        reason: why it failed, or None.
        told: whether it failed for another rank's sake, which says why.
        made_s, played_s: what its Buffer took to be made, and its part to be played.
        exact, free, elements, late, replays, informed, refused, found, counted: as in Seen, of this rank.
    """

    native_digest: str | None = None
    protocol: str | None = None
    switches: Mapping[str, int] | None = None
    reason: str | None = None
    told: bool = False
    made_s: float = 0.0
    played_s: float = 0.0
    exact: int = 0
    free: int = 0
    elements: int = 0
    late: int = 0
    replays: int = 0
    informed: int = 0
    refused: int = 0
    found: int = 0
    counted: int = 0


class RankEnd(Protocol):
    """One rank of a group, as far as it plays a part.

    Args:
        rank: its number.
        shape: of the exchanges.
        late, replays, counted: as in Seen, so far.
    """

    rank: int
    shape: ExchangeShape
    late: int
    replays: int
    counted: int

    def play(self, turn: Turn) -> Any:
        """One exchange to its end: what a source collected, or what an FFN rank received."""

    def play_free(self, turns: Sequence[Turn]) -> list[Any]:
        """Exchanges one behind the other; of an FFN rank, what it received in the last, and None before."""

    def poisoned_result(self) -> bool:
        """Whether nothing that the failed exchange collected can be taken for a result."""

    def meet(self, problem: str | None = None) -> None:
        """Meet the other ranks, as `harness.validation.meeting` says. Raises PeerFailedError."""


def play(trial: Trial, end: RankEnd, report: Report) -> None:
    """Play a rank's part to its end and fill its report; an error of any kind becomes its reason, and peers are told.

    All ranks leave it in step.
    """
    try:
        _play_and_tell(trial, end, report)
    except PeerFailedError as told:
        if report.reason is None:
            report.reason, report.told = str(told), True
    report.late, report.replays, report.counted = end.late, end.replays, end.counted


def _play_and_tell(trial: Trial, end: RankEnd, report: Report) -> None:
    try:
        _play(trial, end, report)
    except PeerFailedError:
        raise
    except Exception as error:
        report.reason = in_words(error)
    end.meet(report.reason)


def in_words(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no message')}"


def _play(trial: Trial, end: RankEnd, report: Report) -> None:
    all_turns = turns(trial, end.shape)
    for turn in all_turns:
        if turn.wrong is not None:
            _refused(end, turn, report)
            return
        found = end.play(turn)
        report.elements += compared(end.shape, end.rank, turn, found)
        report.exact += 1
    if trial.case.corrupted:
        _turn_a_bit(trial.case.corrupted, end, all_turns[-1], found, report)
    if trial.case.runs_free and trial.mode == "eager":
        for turn, found in zip(all_turns, end.play_free(all_turns), strict=True):
            report.elements += 0 if found is None else compared(end.shape, end.rank, turn, found)
            report.exact += 1
            report.free += 1


def compared(shape: ExchangeShape, rank: int, turn: Turn, found: Any) -> int:
    """How many elements of what a rank was given were compared.

    Raises:
        MismatchError: the first difference.
    """
    if shape.layout.role(rank) == "ffn":
        return compare_received(shape, turn.sent, rank, found)
    own = turn.sent[rank - shape.layout.ffn_ranks]
    return compare_collected(rank, proof.expected(shape, [own])[0], found)


def _turn_a_bit(where: str, end: RankEnd, turn: Turn, found: Any, report: Report) -> None:
    """Turn a bit in what this rank was given, if it was given such: the comparison must find it."""
    is_ffn = end.shape.layout.role(end.rank) == "ffn"
    rows = np.array(found.x[: found.expert_offsets[-1]] if is_ffn else found)
    if is_ffn != (where == "received") or rows.size == 0:
        return
    rows.view(f"u{rows.dtype.itemsize}")[-1, -1] ^= 1
    try:
        compared(end.shape, end.rank, turn, _with_rows(found, rows) if is_ffn else rows)
    except MismatchError:
        report.found = 1
    else:
        report.reason = "expected the comparison to find a bit that was turned, received no difference"


def _with_rows(received: Any, x: Any) -> Any:
    """What was received, with other rows."""
    fields = {name: getattr(received, name) for name in ("weights", "scales", "expert_offsets", "source")}
    return _Rows(x=x, **fields)


@dataclass(frozen=True)
class _Rows:
    x: Any
    weights: Any
    scales: Any
    expert_offsets: Any
    source: Any


def _refused(end: RankEnd, turn: Turn, report: Report) -> None:
    """The exchange with a wrong route: this rank must raise it, and the one that sent it must name the place."""
    wrong = turn.wrong
    assert wrong is not None
    try:
        end.play(turn)
    except DeviceAssertion as error:
        named: tuple[object, ...] = (error.name, error.rank)
        planted: tuple[object, ...] = (wrong.name, wrong.rank)
        if end.rank == wrong.rank:
            named += (error.token, error.lane, error.expert)
            planted += (wrong.token, wrong.lane, wrong.expert)
        if named != planted:
            report.reason = f"expected the assertion {planted}, received {named}"
        elif not end.poisoned_result():
            report.reason = "expected NaN in what a failed exchange collected, received numbers"
        else:
            report.informed = 1
    else:
        report.reason = f"expected the assertion {wrong.name}, received a result"


def seen_by(trial: Trial, shape: ExchangeShape, reports: Mapping[int, Report]) -> Seen:
    """What all ranks saw together: exchanges as the least rank counts them, ranks as many as say so."""
    all_reports = list(reports.values())
    ffns = [report for rank, report in reports.items() if shape.layout.role(rank) == "ffn"]
    return Seen(
        trial=trial,
        shape=shape,
        turns=turns(trial, shape),
        exact=min(report.exact for report in all_reports),
        free=min(report.free for report in all_reports),
        late=max(report.late for report in all_reports),
        replays=min(report.replays for report in all_reports),
        switches=_switches(reports),
        alone=_alone(trial, shape, reports),
        informed=sum(report.informed for report in all_reports),
        refused=sum(report.refused for report in all_reports),
        found=sum(report.found for report in all_reports),
        counted=min(report.counted for report in ffns),
    )


def _switches(reports: Mapping[int, Report]) -> dict[str, int]:
    """What every rank has loaded."""
    loaded = [dict(report.switches or {}) for report in reports.values()]
    return loaded[0] if all(one == loaded[0] for one in loaded) else {}


def _alone(trial: Trial, shape: ExchangeShape, reports: Mapping[int, Report]) -> int:
    """FFN ranks that have loaded what was asked for, where no rank of Attention has any of it."""
    asked = dict(Arm.parse(trial.arm).switches)
    by_role: dict[str, list[dict[str, int]]] = {"ffn": [], "attention": []}
    for rank, report in reports.items():
        by_role[shape.layout.role(rank)].append(dict(report.switches or {}))
    return 0 if any(by_role["attention"]) else sum(one == asked for one in by_role["ffn"])
