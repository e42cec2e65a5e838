"""The page of device records: `python -m harness.device.page RECORDS PAGE`. Its figures come from the records alone."""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.leaving import leave
from harness.records import Record, read, record_files

Row = tuple[str, int, str, int]
"""Layout, hidden, dtype, transport SMs."""

ABSENT = "\u2014"


def main(words: list[str]) -> int:
    """Write the page of a folder of records."""
    records, page = Path(words[0]), Path(words[1])
    reading = read(record_files(records))
    page.write_text(text(reading.records), encoding="utf-8")
    return int(bool(reading.quarantined))


def text(records: Sequence[Record]) -> str:
    """The page: one table a row of the sweep, then failures and provenance."""
    measured = [record for record in records if record.status == "ok" and record.backend == "cuda"]
    rows = sorted({(r.layout, r.hidden, r.dtype, r.transport_sms) for r in measured})
    tables = [_table(row, [r for r in measured if _row(r) == row]) for row in rows]
    return "\n\n".join(["# Measured round trips", _LEAD, *tables, _failures(records), _provenance(measured)]) + "\n"


_LEAD = (
    "us a round trip: the slowest Attention rank's median over graph replays, then the median over fresh-process "
    "repeats, with the lowest and highest repeat. Every process proved its exchanges bit for bit before it was timed."
)


def _row(record: Record) -> Row:
    return (record.layout, record.hidden, record.dtype, record.transport_sms)


def _table(row: Row, records: Sequence[Record]) -> str:
    tokens = sorted({record.tokens for record in records})
    arms = sorted({record.arm for record in records}, key=lambda arm: (arm != "m2n", arm))
    lines = [
        "## {} H{} {} with {} transport SMs (measured)".format(*row),
        "",
        f"| arm | {' | '.join(f'T={count} (us)' for count in tokens)} |",
        f"|---|{'---:|' * len(tokens)}",
    ]
    for arm in arms:
        cells = [_cell([r for r in records if (r.arm, r.tokens) == (arm, count)]) for count in tokens]
        lines.append(f"| `{arm}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(records: Sequence[Record]) -> str:
    repeats = sorted({record.pair for record in records})
    figures = [cell_us([record for record in records if record.pair == repeat]) for repeat in repeats]
    if not figures:
        return ABSENT
    return f"{statistics.median(figures):.1f} ({min(figures):.1f}\u2013{max(figures):.1f})"


def cell_us(ranks: Sequence[Record]) -> float:
    """The figure of one cell of one process: the maximum over its Attention ranks."""
    return max(record.latency_us for record in ranks if record.role == "attention" and record.latency_us is not None)


def _failures(records: Sequence[Record]) -> str:
    failed = [f"- `{r.arm}` T={r.tokens} repeat {r.pair}: {r.fail_reason}" for r in records if r.status != "ok"]
    return "\n".join(["## Failed", "", *(failed or ["None."])])


def _provenance(records: Sequence[Record]) -> str:
    def of(name: str) -> str:
        return ", ".join(sorted({str(getattr(record, name)) for record in records}))

    lines = [
        f"- native digest: {of('native_digest')}",
        f"- machine: {of('machine')}; {of('placement')}; backend {of('backend')}",
        f"- routing {of('routing')}, {of('experts')} experts, top-{of('top_k')}, collect {of('collect')}, "
        f"{of('mode')} of {of('num_exchanges')} exchanges, {of('proof_exchanges')} exchanges proved a cell",
        f"- settings: {of('plan_hash')}; records: {len(records)}",
        f"- command: `python -m harness.device` of harness {of('harness_digest')}, since replaced by "
        "the verb `screen`; this page: `python -m harness.device.page records/h200 reports/h200.md`",
    ]
    return "\n".join(["## Provenance", "", *lines])


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
