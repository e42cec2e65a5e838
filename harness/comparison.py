"""From records to paired comparisons: which cells have both arms, what they say, and what does not count."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.screen_config import Row
from harness.plan import Cell, Plan, Process
from harness.recording import latency_us
from harness.records import Record
from harness.statistics import Pair, change_pct, num_agreeing

BASELINE = 0


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
    """A planned cell of a process without an ok record: void, failed or missing, with the reason."""

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
        latencies_us: of every planned cell that counts, by row index, tokens, arm index and pair.
    """

    comparisons: Mapping[tuple[int, int, int], Comparison]
    absences: tuple[Absence, ...]
    latencies_us: Mapping[tuple[int, int, int, int], float]

    @property
    def num_ok(self) -> int:
        return len(self.latencies_us)

    def repeats_us(self, row_index: int, tokens: int, arm: int) -> list[float]:
        """A cell of an arm, one figure a pair that has it."""
        wanted = (row_index, tokens, arm)
        return [figure for place, figure in sorted(self.latencies_us.items()) if place[:3] == wanted]


def findings(plan: Plan, records: Sequence[Record]) -> Findings:
    """Read the records of a plan, in order of file name; of several ok records of a cell, the first process counts."""
    by_key: dict[str, list[Record]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    latencies: dict[tuple[int, int, int, int], float] = {}
    absences: list[Absence] = []
    for process in plan.processes:
        for cell in plan.cells:
            found = by_key.get(plan.cell_key(process, cell), [])
            measured = _first_process(found)
            reason = _void_pair(plan, process, cell, by_key) if measured else None
            if measured and reason is None:
                latencies[process.row, cell.tokens, process.arm, process.pair] = latency_us(measured)
            else:
                absences.append(_absence(plan, process, cell, found, reason))
    return Findings(_compare(plan, latencies), tuple(absences), latencies)


def _first_process(found: Iterable[Record]) -> list[Record]:
    """The ok records up to the first repeated rank: a second run of the plan measured the cell again."""
    first: dict[int | None, Record] = {}
    for record in found:
        if record.status == "ok" and record.rank in first:
            break
        if record.status == "ok":
            first[record.rank] = record
    return list(first.values())


def _void_pair(plan: Plan, process: Process, cell: Cell, by_key: Mapping[str, Sequence[Record]]) -> str | None:
    """Why the pair is void although both arms were measured: one loaded identity in two arms without an A/A."""
    if plan.declared_aa:
        return None
    others = [
        one for one in plan.processes if (one.row, one.pair) == (process.row, process.pair) and one is not process
    ]
    own = _loaded(by_key.get(plan.cell_key(process, cell), []))
    for other in others:
        if own & _loaded(by_key.get(plan.cell_key(other, cell), [])):
            return f"loaded the identity of {plan.arms[other.arm].name} without an A/A"
    return None


def _loaded(found: Iterable[Record]) -> set[tuple[str | None, ...]]:
    return {
        (record.loaded_digest, record.loaded_protocol, record.loaded_switches)
        for record in found
        if record.status == "ok"
    }


def _absence(plan: Plan, process: Process, cell: Cell, found: Sequence[Record], reason: str | None) -> Absence:
    row, arm = plan.rows[process.row], plan.arms[process.arm].name
    if reason is not None:
        return Absence(row, cell.tokens, arm, process.pair, "void", reason)
    if not found:
        return Absence(row, cell.tokens, arm, process.pair, "missing", "not run")
    last = found[-1]
    return Absence(
        row, cell.tokens, arm, process.pair, last.status, last.void_reason or last.fail_reason or "no reason"
    )


def _compare(
    plan: Plan, latencies: Mapping[tuple[int, int, int, int], float]
) -> dict[tuple[int, int, int], Comparison]:
    comparisons: dict[tuple[int, int, int], Comparison] = {}
    for row_index, row in enumerate(plan.rows):
        for cell in plan.cells:
            for arm in range(1, len(plan.arms)):
                pairs = tuple(
                    Pair(
                        latencies[row_index, cell.tokens, BASELINE, pair], latencies[row_index, cell.tokens, arm, pair]
                    )
                    for pair in range(plan.backend.pairs)
                    if {(row_index, cell.tokens, side, pair) for side in (BASELINE, arm)} <= latencies.keys()
                )
                if pairs:
                    comparisons[row_index, cell.tokens, arm] = Comparison(row, cell.tokens, pairs)
    return comparisons
