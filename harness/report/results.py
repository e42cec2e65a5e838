"""What a report is made of: plans with their records, or records alone where they are older than plans."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.core.plan import Plan, PlanFile
from harness.errors import Exit
from harness.records.envelope import FAILED, OK, Envelope, Row
from harness.records.table import Reading

R = TypeVar("R", bound=Row)
E = TypeVar("E", bound=Envelope)


@dataclass(frozen=True)
class Part:
    """One plan with what is recorded of it.

    Args:
        file: the plan, or None where records are all there is.
        reading: its records.
    """

    file: PlanFile | None
    reading: Reading

    @property
    def plan(self) -> Plan:
        assert self.file is not None, "records without a plan"
        return self.file.plan

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """The rows of a table."""
        return self.reading.of(kind)


@dataclass(frozen=True)
class Results:
    """What a page is about.

    Args:
        study: whose page it is.
        name: of the archive, or of what the plan measures.
        parts: plans with their records, the oldest first.
        damaged: plan files that cannot be read, by name and reason.
    """

    study: str
    name: str
    parts: tuple[Part, ...]
    damaged: Mapping[str, str] = field(default_factory=dict)

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """The rows of a table, over all parts."""
        return tuple(row for part in self.parts for row in part.of(kind))

    def current(self, kind: type[E]) -> list[E]:
        """The rows of a table that are of the latest attempt at their trial; an archived row without a key is one."""
        by_trial: dict[object, list[E]] = {}
        for index, row in enumerate(self.of(kind)):
            by_trial.setdefault(row.key or index, []).append(row)
        return [row for rows in by_trial.values() for row in latest(rows)]

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """All rows as plain data."""
        return tuple(row for part in self.parts for row in part.reading.rows)


def latest(rows: Sequence[E]) -> list[E]:
    """The rows of the latest attempt that came to something that counts, or of the latest of all."""
    if not rows:
        return []
    best = max(rows, key=lambda row: (row.status == OK, row.attempt))
    return [row for row in rows if (row.run, row.attempt) == (best.run, best.attempt)]


def verdict(statuses: Collection[str], is_incomplete: bool = False) -> Exit:
    """Found where something failed; nothing where nothing is ok, or too little was run to say so."""
    if FAILED in statuses:
        return Exit.FOUND
    return Exit.OK if OK in statuses and not is_incomplete else Exit.NOTHING


def counts(named: Iterable[str]) -> str:
    """How many there are of each, in words."""
    return ", ".join(f"{count:,} {name}" for name, count in sorted(Counter(named).items()))
