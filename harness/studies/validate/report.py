"""The matrix of a validation, from its records alone."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import combinations
from typing import Any

import pandas as pd

from harness.errors import Exit
from harness.records.envelope import FAILED, OK, STATUSES
from harness.report import page
from harness.report.markdown import ABSENT, KIND_OF_BACKEND, bullets, table
from harness.report.results import Results
from harness.studies.validate.cases import COVER, left_out
from harness.studies.validate.program import Record

_AXES = ("arm", "dtype", "hidden", "top_k", "transport_sms", "tokens", "routing", "mode")
"""Axes that the covering trials cover in pairs, in the order of their rows."""


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The report in Markdown, provenance last."""
    trials = _trials(results)
    sections = [part for kind, own in trials.groupby("kind", sort=False) for part in _backend(kind, own)]
    cases = ["## Cases", _cases(trials), _left_out(results), "## Void, failed or missing", page.not_ok(results)]
    provenance = ["## Provenance", page.provenance(results, _more(trials))]
    return page.assemble(f"Validation {results.name}", [_LEAD, *sections, *cases, *provenance])


def summary(results: Results) -> str:
    """What a command prints at its end."""
    trials = _trials(results)
    return "\n".join([*_reasons(trials[trials.status == FAILED]), *_counts(trials), page.not_ok(results)])


def status(results: Results) -> Exit:
    """Found where a trial failed, nothing where all are void."""
    found = set(_trials(results).status)
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


def _trials(results: Results) -> Any:
    """A table with the latest attempt at each trial, the simulated ones first, and the kind of its figures."""
    trials = pd.DataFrame(map(vars, results.current(Record)), columns=[one.name for one in fields(Record)])
    return trials.assign(kind=trials.backend.map(KIND_OF_BACKEND)).sort_values("kind", ascending=False, kind="stable")


def _backend(kind: str, trials: Any) -> list[str]:
    notes: dict[str, str] = {}
    parts = [f"## {kind.capitalize()}"]
    if len(cover := trials[trials.case == COVER]):
        lines = [(f"{axis} {value}", own) for axis in _AXES for value, own in cover.groupby(axis)]
        parts += [_COVER_LEAD.format(len(cover)), _matrix("shape", cover.layout.unique(), lines, notes)]
    if len(others := trials[trials.case != COVER]):
        cases = others.groupby("case", sort=False)
        parts += [_special_lead(others), _matrix("case", others.layout.unique(), cases, notes)]
    return [*parts, bullets((f"{mark} {reason}" for reason, mark in notes.items()), "")]


_COVER_LEAD = (
    "Not every combination of shapes, but a covering design: {} trials, in which each pair of two axes' values, and of "
    "a value with a layout, stands at least once. A row counts the trials with its value:"
)


def _special_lead(trials: Any) -> str:
    """How many pairs of values a case has over all layouts, of those that it could have."""
    pairs = [list(pair) for pair in combinations(("arm", "dtype", "mode"), 2)]
    distinct = trials.groupby("case")[["arm", "dtype", "mode"]].nunique()
    reached = sum(len(trials[["case", *pair]].drop_duplicates()) for pair in pairs)
    possible = sum(distinct[pair].prod(axis=1).sum() for pair in pairs)
    return (
        "Each case on each layout. Of the pairs of values of arm, dtype and mode that a case could have, "
        f"{reached:,} of {possible:,} stand together in a trial on some layout:"
    )


def _matrix(title: str, layouts: Sequence[str], lines: Iterable[tuple[str, Any]], notes: dict[str, str]) -> str:
    """A row for each label with its trials, a column for each layout."""
    rows = [[label, *(_cell(own[own.layout == one], notes) for one in layouts)] for label, own in lines]
    return table([title, *layouts], rows)


def _cell(trials: Any, notes: dict[str, str]) -> str:
    """Each status with its trials; what is not ok has its reasons as notes, numbered as they first occur."""
    words = []
    for name, own in trials.groupby("status"):
        marks = dict.fromkeys(notes.setdefault(reason, f"[{len(notes) + 1}]") for reason in _reasons(own))
        words.append(f"{name} {len(own)} {''.join(marks)}".rstrip())
    return ", ".join(words) or ABSENT


def _reasons(trials: Any) -> list[str]:
    """Why trials are not ok; of one that failed also which it is."""
    bad = trials.dropna(subset="reason")
    where = bad.case + " " + bad.layout + " " + bad.arm + " " + bad.dtype + " " + bad["mode"] + ": "
    return list(bad.status + ": " + where.where(bad.status == FAILED, "") + bad.reason)


def _cases(trials: Any) -> str:
    """What each case shows, what its trials end in, and how often its coverage condition was met."""
    rows, kinds = [], trials.kind.unique()
    for name, own in trials.groupby("case", sort=False):
        first, good = own.iloc[0], own[own.status == OK]
        elements = good.groupby("kind").elements.sum().reindex(kinds, fill_value=0)
        met = dict.fromkeys(f"{good.times_met.agg(end):,}" for end in ("min", "max")) if len(good) else [ABSENT]
        words = [name, first.shows, first.expects, first.condition, "\u2013".join(met)]
        rows.append([*words, *map("{:,}".format, elements)])
    header = ["case", "what it shows", "ends", "witness", "witnessed in a trial"]
    return table([*header, *(f"elements compared, {kind}" for kind in kinds)], rows, range(4, 5 + len(kinds)))


def _left_out(results: Results) -> str:
    """Pairs of values that no trial of a plan has, of those that its cases declare."""
    lines = []
    for plan in (part.plan for part in results.parts if part.file is not None):
        for backend in plan.settings.backends:
            missing = left_out(plan.settings.declared(backend), plan.settings.chosen(backend)).items()
            lines += [f"left out of {case}, {KIND_OF_BACKEND[backend]}: {', '.join(pairs)}" for case, pairs in missing]
    return bullets(lines, "")


def _more(trials: Any) -> list[str]:
    """Of the provenance: how many ranks of each layout shared a GPU, what it took, and what came of it."""
    ran = trials[(trials.backend == "cuda") & trials.protocol.notna()]
    shared = dict.fromkeys(ran.layout + " " + ran.ranks_per_gpu.astype(str))
    cpu = trials.cpu_s.sum() / 60
    return [
        *([f"ranks on the fullest GPU: {', '.join(shared)}"] if shared else []),
        *([f"{cpu:.1f} minutes of CPU time"] if cpu else []),
        f"seed {', '.join(map(str, trials.seed.unique()))}",
        *_counts(trials),
    ]


def _counts(trials: Any) -> list[str]:
    lines = []
    for kind, own in trials.groupby("kind", sort=False):
        words = ", ".join(f"{(own.status == status).sum():,} {status}" for status in STATUSES)
        lines.append(f"{kind}: {words}; {own.exchanges.sum():,} exact exchanges, {own.elements.sum():,} elements")
    return lines
