"""The matrix of a validation, from its records alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from harness.records.validations import ValidationRecord
from harness.tables import ABSENT, COLUMN_OF_BACKEND, markdown
from harness.validation.cases import COVER

_AXES = ("arm", "dtype", "hidden", "top_k", "transport_sms", "tokens", "routing", "mode")
"""Axes that the covering trials cover in pairs, in the order of their rows."""

_Filter = Callable[[ValidationRecord], bool]


@dataclass
class _Notes:
    """Footnotes: each reason once, numbered in the order it first occurs."""

    reasons: list[str] = field(default_factory=list)

    def mark(self, reason: str) -> str:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"[{self.reasons.index(reason) + 1}]"

    def text(self) -> str:
        return "\n".join(f"- [{number}] {reason}" for number, reason in enumerate(self.reasons, 1))


def text(name: str, records: Sequence[ValidationRecord]) -> str:
    """The page in Markdown, provenance last."""
    backends = [one for one in COLUMN_OF_BACKEND if any(record.backend == one for record in records)]
    sections = [part for backend in backends for part in _backend([one for one in records if one.backend == backend])]
    parts = [f"# Validation {name}", _LEAD, *sections, "## Cases", _cases(records), "## Provenance"]
    return "\n\n".join([*parts, *_provenance(records)]) + "\n"


def summary(records: Sequence[ValidationRecord]) -> str:
    """What a command prints at its end."""
    failed = [_reason(one) for one in records if one.status == "failed"]
    return "\n".join([*failed, *(_count(records, backend) for backend in dict.fromkeys(_backends(records)))])


_LEAD = (
    "A cell says what came of the trials of a case on a layout: `ok` and how many, `failed` or `void` with the reason "
    "below. A trial plays a few exchanges, each with fresh rows, ids and weights over poisoned memory and through a "
    "transform that differs by expert, and compares every element that every Attention rank collected and every row "
    "that every FFN rank received with the reference, bit for bit. Eager exchanges of a case that ends exact, without "
    "a pause, then run once more, free, one behind the other; of these the rows received are compared in the last. A "
    "simulated one-role trial plays no exchange: it compares what the ranks would tell each other. A trial "
    "in which what its case claims never happened has failed. Simulated trials show what the kernels' sources do under "
    "the simulator's memory model, and nothing about a GPU."
)


def _backend(records: Sequence[ValidationRecord]) -> list[str]:
    notes = _Notes()
    cover = [one for one in records if one.case == COVER]
    others = [one for one in records if one.case != COVER]
    parts = [f"## {COLUMN_OF_BACKEND[records[0].backend].capitalize()}"]
    if cover:
        parts += [_cover_lead(cover), _cover(cover, notes)]
    if others:
        parts += [_special_lead(others), _special(others, notes)]
    return [*parts, *([notes.text()] if notes.reasons else [])]


def _special_lead(records: Sequence[ValidationRecord]) -> str:
    """Whether each case has all its combinations on each layout, or how many pairs of values it has over all."""
    layouts = {one.layout for one in records}
    points = {name: {_point(one) for one in records if one.case == name} for name in {one.case for one in records}}
    if len({(one.case, one.layout, *_point(one)) for one in records}) == len(layouts) * sum(map(len, points.values())):
        return "Each case at every combination of its arms, dtypes and modes:"
    reached, possible = (sum(map(_num_pairs, sets)) for sets in (points.values(), map(_all_of, points.values())))
    return (
        "Each case on each layout, at combinations of arm, dtype and mode that differ from layout to layout. Of the "
        f"pairs of values that a case could have, {reached:,} of {possible:,} stand together on some layout:"
    )


_Point = tuple[str, str, str]


def _point(one: ValidationRecord) -> _Point:
    return (one.arm, one.dtype, one.mode)


def _all_of(points: Iterable[_Point]) -> set[_Point]:
    """Every combination of the values that stand in these."""
    return {(arm, dtype, mode) for arm, dtype, mode in product(*map(set, zip(*points, strict=True)))}


def _num_pairs(points: Iterable[_Point]) -> int:
    return len({pair for point in points for pair in combinations(enumerate(point), 2)})


def _cover_lead(records: Sequence[ValidationRecord]) -> str:
    return (
        f"Not every combination of shapes, but a covering design: {len(records)} trials, in which each pair of two "
        "axes' values, and of a value with a layout, stands at least once. A row counts the trials with its value:"
    )


def _cover(records: Sequence[ValidationRecord], notes: _Notes) -> str:
    lines = []
    for axis in _AXES:
        values = sorted({getattr(one, axis) for one in records})
        lines += [(f"{axis} {value}", _has(axis, value)) for value in values]
    return _matrix("shape", lines, records, notes)


def _has(axis: str, value: object) -> _Filter:
    return lambda one: bool(getattr(one, axis) == value)


def _special(records: Sequence[ValidationRecord], notes: _Notes) -> str:
    names = dict.fromkeys(one.case for one in records)
    return _matrix("case", [(name, _has("case", name)) for name in names], records, notes)


def _matrix(
    title: str, lines: Iterable[tuple[str, _Filter]], records: Sequence[ValidationRecord], notes: _Notes
) -> str:
    layouts = list(dict.fromkeys(one.layout for one in records))
    rows = []
    for label, is_in in lines:
        own = [one for one in records if is_in(one)]
        rows.append([label, *(_cell([one for one in own if one.layout == layout], notes) for layout in layouts)])
    return markdown([title, *layouts], rows, frozenset())


def _cell(records: Sequence[ValidationRecord], notes: _Notes) -> str:
    """Each status with its trials; what is not ok has its reasons as notes."""
    words = []
    for status in ("failed", "ok", "void"):
        own = [one for one in records if one.status == status]
        marks = dict.fromkeys(notes.mark(_reason(one)) for one in own if one.reason)
        if own:
            words.append(f"{status} {len(own)}{' ' if marks else ''}{''.join(marks)}")
    return ", ".join(words) or ABSENT


def _reason(one: ValidationRecord) -> str:
    where = f"{one.case} {one.layout} {one.arm} {one.dtype} {one.mode}: " if one.status == "failed" else ""
    return f"{one.status}: {where}{one.reason}"


def _cases(records: Sequence[ValidationRecord]) -> str:
    """What each case shows, what its trials end in, and how often what it claims has happened."""
    rows, backends = [], dict.fromkeys(_backends(records))
    for name in dict.fromkeys(one.case for one in records):
        own = [one for one in records if one.case == name and one.status == "ok"]
        first = next(one for one in records if one.case == name)
        elements = [f"{sum(one.elements for one in own if one.backend == backend):,}" for backend in backends]
        rows.append([name, first.shows, first.expects, first.witness, _span([one.witnessed for one in own]), *elements])
    compared = [f"elements compared, {COLUMN_OF_BACKEND[backend]}" for backend in backends]
    header = ["case", "what it shows", "ends", "witness", "witnessed in a trial", *compared]
    return markdown(header, rows, frozenset(range(4, len(header))))


def _span(counts: Sequence[int]) -> str:
    """The least and the most, once where they are one."""
    return "\u2013".join(f"{count:,}" for count in sorted({min(counts), max(counts)})) if counts else ABSENT


def _provenance(records: Sequence[ValidationRecord]) -> list[str]:
    first = records[0]
    digests = sorted({str(one.native_digest) for one in records if one.native_digest})
    cpu = sum(one.cpu_s for one in records) / 60
    lines = [
        f"- command: `{first.command}`; {first.created}",
        f"- native digest {', '.join(digests) or ABSENT}; harness {first.harness_digest}",
        *_machines(records),
        f"- {f'{cpu:.1f} minutes of CPU time; ' if cpu else ''}seed {first.seed}",
        *(f"- {_count(records, backend)}" for backend in dict.fromkeys(_backends(records))),
    ]
    return ["\n".join(lines)]


def _machines(records: Sequence[ValidationRecord]) -> list[str]:
    """The simulator's, and the GPUs with how many ranks of each layout shared one."""
    simulated = sorted({one.machine for one in records if one.backend == "sim"})
    lines = [f"- machine of the simulator: {', '.join(simulated)}"] if simulated else []
    played = [one for one in records if one.backend == "cuda" and one.native_digest]
    if not played:
        return lines
    shared = dict.fromkeys(f"{one.layout} {one.ranks_per_gpu}" for one in played)
    gpus = ", ".join(sorted({one.machine for one in played}))
    return [*lines, f"- ran on {gpus}; ranks on the fullest GPU: {', '.join(shared)}"]


def _backends(records: Sequence[ValidationRecord]) -> list[str]:
    return [one.backend for one in records]


def _count(records: Sequence[ValidationRecord], backend: str) -> str:
    own = [one for one in records if one.backend == backend]
    counts = {status: sum(one.status == status for one in own) for status in ("ok", "failed", "void")}
    words = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    played = f"{sum(one.exchanges for one in own):,} exact exchanges, {sum(one.elements for one in own):,} elements"
    return f"{COLUMN_OF_BACKEND[backend]}: {words}; {played}"
