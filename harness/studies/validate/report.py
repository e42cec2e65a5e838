"""The matrix of a validation, from its records alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

from harness.errors import Exit
from harness.records.envelope import FAILED, OK, STATUSES
from harness.report import page
from harness.report.markdown import ABSENT, KIND_OF_BACKEND, bullets, table
from harness.report.results import Results
from harness.studies.validate.choosing import COVER, left_out
from harness.studies.validate.program import Record

_AXES = ("arm", "dtype", "hidden", "top_k", "transport_sms", "tokens", "routing", "mode")
"""Axes that the covering trials cover in pairs, in the order of their rows."""


@dataclass
class _Notes:
    """Footnotes: each reason once, numbered in the order it first occurs."""

    reasons: list[str] = field(default_factory=list)

    def mark(self, reason: str) -> str:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"[{self.reasons.index(reason) + 1}]"

    def text(self) -> str:
        return bullets((f"[{number}] {reason}" for number, reason in enumerate(self.reasons, 1)), "")


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The report in Markdown, provenance last."""
    records = results.current(Record)
    sections = [part for own in _by_backend(records).values() for part in _backend(own)]
    cases = ["## Cases", _cases(records), _left_out(results), "## Void, failed or missing", page.not_ok(results)]
    provenance = ["## Provenance", page.provenance(results, _more(records))]
    return page.assemble(f"Validation {results.name}", [_LEAD, *sections, *cases, *provenance])


def summary(results: Results) -> str:
    """What a command prints at its end."""
    records = results.current(Record)
    failed = [_reason(one) for one in records if one.status == FAILED]
    return "\n".join([*failed, *_counts(records), page.not_ok(results)])


def status(results: Results) -> Exit:
    """Found where a trial failed, nothing where all are void."""
    found = {one.status for one in results.current(Record)}
    return Exit.FOUND if FAILED in found else Exit.OK if OK in found else Exit.NOTHING


_LEAD = (
    "A cell says what came of the trials of a case on a layout: `ok` and how many, `failed` or `void` with the reason "
    "below. A trial runs a few exchanges, each with fresh rows, ids and weights over poisoned memory and through a "
    "transform that differs by expert. It compares every element that every Attention rank collected and every row "
    "that every FFN rank received with the reference, bit for bit. Where a case must end exact and has no pause, its "
    "eager exchanges then run once more, one behind the other without a look in between; of these the rows received "
    "are compared in the last. A simulated one-role trial runs no exchange: it compares what the ranks would tell each "
    "other. The column `witness` names the coverage condition of a case: a trial in which it was never met has failed. "
    "Simulated trials show what the kernels' sources do under the simulator's memory model, and nothing about a GPU."
)


def _by_backend(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {backend: [] for backend in KIND_OF_BACKEND}
    for one in records:
        found[one.backend].append(one)
    return {backend: own for backend, own in found.items() if own}


def _backend(records: Sequence[Record]) -> list[str]:
    notes = _Notes()
    cover = [one for one in records if one.case == COVER]
    others = [one for one in records if one.case != COVER]
    parts = [f"## {KIND_OF_BACKEND[records[0].backend].capitalize()}"]
    if cover:
        values = [(axis, value) for axis in _AXES for value in sorted({getattr(one, axis) for one in cover})]
        lines = [(f"{axis} {value}", axis, value) for axis, value in values]
        parts += [_COVER_LEAD.format(len(cover)), _matrix("shape", lines, cover, notes)]
    if others:
        lines = [(name, "case", name) for name in dict.fromkeys(one.case for one in others)]
        parts += [_special_lead(others), _matrix("case", lines, others, notes)]
    return [*parts, notes.text()]


_COVER_LEAD = (
    "Not every combination of shapes, but a covering design: {} trials, in which each pair of two axes' values, and of "
    "a value with a layout, stands at least once. A row counts the trials with its value:"
)


def _special_lead(records: Sequence[Record]) -> str:
    """How many pairs of values a case has over all layouts, of those that it could have."""
    points: dict[str, set[tuple[str, ...]]] = {}
    for one in records:
        points.setdefault(one.case, set()).add((one.arm, one.dtype, one.mode))
    reached = sum(map(_num_pairs, points.values()))
    possible = sum(_num_pairs(product(*map(set, zip(*own, strict=True)))) for own in points.values())
    return (
        "Each case on each layout. Of the pairs of values of arm, dtype and mode that a case could have, "
        f"{reached:,} of {possible:,} stand together in a trial on some layout:"
    )


def _num_pairs(points: Iterable[tuple[str, ...]]) -> int:
    return len({pair for point in points for pair in combinations(enumerate(point), 2)})


def _matrix(title: str, lines: Iterable[tuple[str, str, Any]], records: Sequence[Record], notes: _Notes) -> str:
    """A row for each label, of the records that have a value in a column; a column for each layout."""
    layouts = list(dict.fromkeys(one.layout for one in records))
    rows = []
    for label, column, value in lines:
        own = [one for one in records if getattr(one, column) == value]
        rows.append([label, *(_cell([one for one in own if one.layout == layout], notes) for layout in layouts)])
    return table([title, *layouts], rows)


def _cell(records: Sequence[Record], notes: _Notes) -> str:
    """Each status with its trials; what is not ok has its reasons as notes."""
    words = []
    for status in ("failed", "ok", "void"):
        own = [one for one in records if one.status == status]
        marks = dict.fromkeys(notes.mark(_reason(one)) for one in own if one.reason)
        if own:
            words.append(f"{status} {len(own)}{' ' if marks else ''}{''.join(marks)}")
    return ", ".join(words) or ABSENT


def _reason(one: Record) -> str:
    where = f"{one.case} {one.layout} {one.arm} {one.dtype} {one.mode}: " if one.status == FAILED else ""
    return f"{one.status}: {where}{one.reason}"


def _cases(records: Sequence[Record]) -> str:
    """What each case shows, what its trials end in, and how often its coverage condition was met."""
    rows, backends = [], list(_by_backend(records))
    for name in dict.fromkeys(one.case for one in records):
        own = [one for one in records if one.case == name and one.status == OK]
        first = next(one for one in records if one.case == name)
        elements = [f"{sum(one.elements for one in own if one.backend == backend):,}" for backend in backends]
        times = _span([one.times_met for one in own])
        rows.append([name, first.shows, first.expects, first.condition, times, *elements])
    compared = [f"elements compared, {KIND_OF_BACKEND[backend]}" for backend in backends]
    header = ["case", "what it shows", "ends", "witness", "witnessed in a trial", *compared]
    return table(header, rows, range(4, len(header)))


def _span(counts: Sequence[int]) -> str:
    """The least and the most, once where they are one."""
    return "\u2013".join(f"{count:,}" for count in sorted({min(counts), max(counts)})) if counts else ABSENT


def _left_out(results: Results) -> str:
    """Pairs of values that no trial of a plan has, of those that its cases declare."""
    lines = []
    for plan in (part.plan for part in results.parts if part.file is not None):
        for backend in plan.settings.backends:
            missing = left_out(plan.settings.declared(backend), plan.settings.chosen(backend)).items()
            kind = KIND_OF_BACKEND[backend]
            lines += [f"left out of {case}, {kind}: {', '.join(pairs)}" for case, pairs in missing]
    return bullets(lines, "")


def _more(records: Sequence[Record]) -> list[str]:
    """Of the provenance: how many ranks of each layout shared a GPU, what it took, and what came of it."""
    ran = [one for one in records if one.backend == "cuda" and one.protocol]
    shared = dict.fromkeys(f"{one.layout} {one.ranks_per_gpu}" for one in ran)
    cpu = sum(one.cpu_s for one in records) / 60
    return [
        *([f"ranks on the fullest GPU: {', '.join(shared)}"] if ran else []),
        *([f"{cpu:.1f} minutes of CPU time"] if cpu else []),
        f"seed {', '.join(map(str, dict.fromkeys(one.seed for one in records)))}",
        *_counts(records),
    ]


def _counts(records: Sequence[Record]) -> list[str]:
    return [f"{KIND_OF_BACKEND[backend]}: {_count(own)}" for backend, own in _by_backend(records).items()]


def _count(records: Sequence[Record]) -> str:
    words = ", ".join(f"{sum(one.status == status for one in records):,} {status}" for status in STATUSES)
    exchanges, elements = (sum(getattr(one, name) for one in records) for name in ("exchanges", "elements"))
    return f"{words}; {exchanges:,} exact exchanges, {elements:,} elements"
