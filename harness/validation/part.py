"""One rank's part of a trial, and the outcome that the parts of all ranks make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from afdep import proof
from afdep.arms import Arm
from afdep.errors import DeviceAssertion
from afdep.shapes import ExchangeShape
from harness.validation import course
from harness.validation.cases import Trial
from harness.validation.comparing import compare_collected, compare_received, with_a_bit_turned
from harness.validation.course import Tally
from harness.validation.turns import Turn, Wrong, turns
from harness.validation.witness import Seen

PART, READY, LOST = "validation part", "validation ready", "validation lost"
"""What a rank says: of a trial (`trial`, its index, and `report`); once it can play (`seconds` that it took); and where
it leaves behind a trial because a rank, not always this one, can play no other.
"""


class PeerFailedError(Exception):
    """Another rank failed, and says why itself."""


@dataclass
class Report(Tally):
    """What a rank says of its part; plain data, as JSON takes it.

    Args:
        native_digest, protocol, switches: as its loaded library reports them.
        reason: why it failed, or None.
        told: whether it failed for another rank's sake, which says why.
        made_s, played_s: what its Buffer took to be made, and its part to be played.
        late, replays, refused, counted: as in Seen, of this rank.
    """

    native_digest: str | None = None
    protocol: str | None = None
    switches: Mapping[str, int] | None = None
    reason: str | None = None
    told: bool = False
    made_s: float = 0.0
    played_s: float = 0.0
    late: int = 0
    replays: int = 0
    refused: int = 0
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
        course.play(trial, _Rank(end), turns(trial, end.shape), report)
    except PeerFailedError:
        raise
    except Exception as error:
        report.reason = course.in_words(error)
    end.meet(report.reason)


class _Rank:
    """One rank, as `harness.validation.course.Player` says."""

    def __init__(self, end: RankEnd):
        self._end = end
        self._is_ffn = end.shape.layout.role(end.rank) == "ffn"

    def play(self, turn: Turn) -> Any:
        return self._end.play(turn)

    def play_free(self, turns: Sequence[Turn]) -> list[Any]:
        return self._end.play_free(turns)

    def compare(self, turn: Turn, brought: Any) -> int:
        return compared(self._end.shape, self._end.rank, turn, brought)

    def with_a_bit_turned(self, brought: Any, where: str) -> Any:
        rows = brought.x[: brought.expert_offsets[-1]] if self._is_ffn else brought
        if self._is_ffn != (where == "received") or rows.size == 0:
            return None
        turned = with_a_bit_turned(rows)
        return replace(brought, x=turned) if self._is_ffn else turned

    def place(self, route: Wrong | DeviceAssertion) -> tuple[object, ...]:
        """Only the rank that sent it knows the place."""
        own = (route.token, route.lane, route.expert) if route.rank == self._end.rank else ()
        return (route.name, route.rank, *own)

    def is_poisoned(self) -> bool:
        return self._end.poisoned_result()

    def count_informed(self) -> int:
        return 1


def compared(shape: ExchangeShape, rank: int, turn: Turn, found: Any) -> int:
    """How many elements of what a rank was given were compared.

    Raises:
        MismatchError: the first difference.
    """
    if shape.layout.role(rank) == "ffn":
        return compare_received(shape, turn.sent, rank, found)
    own = turn.sent[rank - shape.layout.ffn_ranks]
    return compare_collected(rank, proof.expected(shape, [own])[0], found)


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
