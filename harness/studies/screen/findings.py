"""From records to paired comparisons: which cells count, which pairs, what they say, and what does not count."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from afdep import Layout
from harness.core.identity import EXTERNAL
from harness.core.plan import Plan
from harness.ranks.cells import Row
from harness.ranks.exchanges import RoundTrip, columns, latency_us
from harness.records.envelope import OK, VOID
from harness.report.results import latest
from harness.report.statistics import Pair, change_pct, num_agreeing
from harness.studies.screen.program import cell
from harness.study import Batch

BASELINE = 0
_ALIKE = ("run", "host", "driver", "torch", "compiler")
"""Columns in which both sides of a pair must agree; so must their GPUs, and what those are called."""

Place = tuple[int, int, int, int]
"""Row, tokens, arm and pair."""


@dataclass(frozen=True)
class Comparison:
    """One cell of one candidate arm against the baseline, over every pair that has both.

    Args:
        row: the table row.
        tokens: the column.
        pairs: in order of repeat.
    """

    row: Row
    tokens: int
    pairs: tuple[Pair, ...]

    @property
    def baseline_us(self) -> float:
        return median(pair.baseline_us for pair in self.pairs)

    @property
    def candidate_us(self) -> float:
        return median(pair.candidate_us for pair in self.pairs)

    @property
    def change_pct(self) -> float:
        return change_pct(self.pairs)

    @property
    def num_agreeing(self) -> int:
        return num_agreeing(self.pairs)


@dataclass(frozen=True)
class Absence:
    """A planned cell of a process that does not count, or an attempt at one that was lost: why."""

    row: Row
    tokens: int
    arm: str
    pair: int
    status: str
    reason: str


@dataclass(frozen=True)
class Findings:
    """What the records of a plan say.

    Args:
        comparisons: cells with both arms, by row index, tokens and candidate arm index.
        absences: everything planned that does not count.
        lost: attempts that did not count at cells that do.
        latencies_us: of every planned cell that counts.
    """

    comparisons: Mapping[tuple[int, int, int], Comparison]
    absences: tuple[Absence, ...]
    lost: tuple[Absence, ...]
    latencies_us: Mapping[Place, float]

    @property
    def num_ok(self) -> int:
        return len(self.latencies_us)

    def repeats_us(self, row_index: int, tokens: int, arm: int) -> list[float]:
        """A cell of an arm, one figure a pair that has it."""
        wanted = (row_index, tokens, arm)
        return [figure for place, figure in sorted(self.latencies_us.items()) if place[:3] == wanted]


def findings(plan: Plan, records: Sequence[RoundTrip]) -> Findings:
    """Read the records of a plan; of several attempts at a cell, the latest that is ok counts."""
    by_key: dict[str, list[RoundTrip]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    trials = [(batch, trial) for block in plan.blocks for batch in block.batches for trial in batch.trials]
    found = {_place(trial): by_key.get(plan.trial_key(batch, trial), []) for batch, trial in trials}
    counting = {place: latest(rows) for place, rows in found.items()}
    reasons = {
        _place(trial): _void(plan, batch, trial, counting)
        for batch, trial in trials
        if counting[_place(trial)] and counting[_place(trial)][0].status == OK
    }
    reasons |= _of_other_devices({place: counting[place] for place, reason in reasons.items() if reason is None})
    latencies = {place: latency_us(counting[place]) for place, reason in reasons.items() if reason is None}
    absences = [
        _absence(plan, place, rows, reasons.get(place)) for place, rows in counting.items() if place not in latencies
    ]
    lost = [
        _absence(plan, place, [row], None)
        for place in latencies
        for row in found[place]
        if row.status != OK and row not in counting[place]
    ]
    return Findings(_compare(plan, latencies), tuple(absences), tuple(lost), latencies)


def _place(trial: Any) -> Place:
    return trial.row, trial.tokens, trial.arm, trial.pair


def _void(plan: Plan, batch: Batch, trial: Any, counting: Mapping[Place, Sequence[RoundTrip]]) -> str | None:
    """Why a measured cell does not count: its records are not what the plan says, or its pair is none."""
    place = _place(trial)
    if (reason := _untrue(plan, batch, trial, counting[place])) is not None:
        return reason
    for arm, choice in enumerate(plan.settings.arms):
        other = counting.get((*place[:2], arm, place[3]), ())
        if arm == trial.arm or not other or other[0].status != OK:
            continue
        own, theirs = counting[place][0], other[0]
        if not plan.settings.declared_aa and _loaded(own) == _loaded(theirs):
            return f"loaded the identity of {choice.name} without an A/A"
        if trial.arm and arm == BASELINE and (unlike := _unlike(counting[place], other)) is not None:
            return f"no pair with {choice.name}: {unlike}"
    return None


def _untrue(plan: Plan, batch: Batch, trial: Any, rows: Sequence[RoundTrip]) -> str | None:
    """The first field in which the records of a cell are not what the plan says they are."""
    own, identity = cell(plan.settings, trial), plan.arms[trial.arm].identity
    layout = Layout.parse(own.row.layout)
    expected = {**columns(own), "proofs_passed": own.backend.proof_exchanges, "safe_path": True}
    if identity.digest != EXTERNAL:
        expected["loaded_digest"], expected["loaded_protocol"] = identity.digest, identity.protocol
        expected["loaded_switches"] = identity.switches_text()
    if batch.backend == "cuda":
        kind, seen = expected.pop("machine").partition("-")[0].upper(), _devices(rows)
        if len(seen) != 1 or kind not in seen[0].upper():
            return f"device: expected one {kind} for every rank, received {', '.join(seen) or 'none'}"
    if sorted(one.rank for one in rows if one.rank is not None) != list(range(layout.num_ranks)):
        return f"rank: expected each of {layout.num_ranks}, received {[one.rank for one in rows]}"
    for one in rows:
        for name, wanted in {**expected, "role": str(layout.role(one.rank or 0))}.items():
            if getattr(one, name) != wanted:
                return f"{name}: expected {wanted}, received {getattr(one, name)} on rank {one.rank}"
        if not one.samples_us or one.latency_us != median(one.samples_us) or one.latency_us <= 0:
            return (
                f"latency_us: expected the median of samples above zero, received {one.latency_us} on rank {one.rank}"
            )
    return None


def _of_other_devices(counting: Mapping[Place, Sequence[RoundTrip]]) -> dict[Place, str | None]:
    """Why cells do not count that ran on another type of GPU than most of the table."""
    found = {place: ", ".join(_devices(rows)) for place, rows in counting.items()}
    ((usual, _),) = Counter(found.values()).most_common(1) or [("", 0)]
    return {
        place: f"device: expected {usual}, as of the table's other cells, received {own}"
        for place, own in found.items()
        if own != usual
    }


def _loaded(row: RoundTrip) -> tuple[str | None, ...]:
    return row.loaded_digest, row.loaded_protocol, row.loaded_switches


def _unlike(own: Sequence[RoundTrip], other: Sequence[RoundTrip]) -> str | None:
    """The first thing in which two sides of a pair were measured differently."""
    for name in _ALIKE:
        ours, theirs = ({str(getattr(one, name)) for one in side} for side in (own, other))
        if len((ours | theirs) - {"None"}) > 1:
            return f"{name} {', '.join(sorted(ours))}, there {', '.join(sorted(theirs))}"
    for what, read in (("GPUs", _gpus), ("device", _devices)):
        if read(own) != read(other):
            return f"{what} {read(own)}, there {read(other)}"
    return None


def _gpus(rows: Sequence[RoundTrip]) -> list[str]:
    return [str(one.gpu_uuid) for one in sorted(rows, key=lambda one: one.rank or 0)]


def _devices(rows: Sequence[RoundTrip]) -> list[str]:
    return sorted({str(json.loads(one.observed).get("device")) for one in rows if one.observed})


def _absence(plan: Plan, place: Place, rows: Sequence[RoundTrip], reason: str | None) -> Absence:
    row, arm = plan.settings.rows[place[0]], plan.settings.arms[place[2]].name
    where = (row, place[1], arm, place[3])
    if reason is not None:
        return Absence(*where, VOID, reason)
    if not rows:
        return Absence(*where, "missing", "not run")
    return Absence(*where, rows[-1].status, rows[-1].reason or "no reason")


def _compare(plan: Plan, latencies: Mapping[Place, float]) -> dict[tuple[int, int, int], Comparison]:
    comparisons: dict[tuple[int, int, int], Comparison] = {}
    for row_index, row in enumerate(plan.settings.rows):
        for tokens in plan.settings.tokens:
            for arm in range(1, len(plan.settings.arms)):
                pairs = tuple(
                    Pair(latencies[row_index, tokens, BASELINE, pair], latencies[row_index, tokens, arm, pair])
                    for pair in range(plan.settings.backend.pairs)
                    if {(row_index, tokens, side, pair) for side in (BASELINE, arm)} <= latencies.keys()
                )
                if pairs:
                    comparisons[row_index, tokens, arm] = Comparison(row, tokens, pairs)
    return comparisons
