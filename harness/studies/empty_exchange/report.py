"""What empty exchanges cost, by layout and arm."""

from collections.abc import Sequence
from statistics import median

from afdep import Layout
from harness.errors import Exit
from harness.ranks.exchanges import RoundTrip, kind, latency_us
from harness.records.envelope import OK
from harness.report import page
from harness.report.markdown import ABSENT, table
from harness.report.results import Results


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The page in Markdown."""
    return page.assemble("What an exchange without tokens costs", [_table(results), *page.ends(results)])


def _table(results: Results) -> str:
    rows = [row for row in results.of(RoundTrip) if row.status == OK and row.role == "attention"]
    arms = list(dict.fromkeys(row.arm for row in rows))
    lines = []
    for place in dict.fromkeys((row.plan_hash, row.layout, kind(row)) for row in rows):
        own = [row for row in rows if (row.plan_hash, row.layout, kind(row)) == place]
        lines.append([*place, *(_us([row for row in own if row.arm == arm]) for arm in arms)])
    return table(["plan", "layout", "figures", *(f"`{arm}`, us" for arm in arms)], lines, range(3, len(arms) + 3))


def _us(rows: Sequence[RoundTrip]) -> str:
    """The median over processes of which every Attention rank is there."""
    by_process: dict[str, list[RoundTrip]] = {}
    for row in rows:
        by_process.setdefault(f"{row.key} {row.attempt}", []).append(row)
    whole = [own for own in by_process.values() if len(own) == Layout.parse(own[0].layout).attention_ranks]
    return f"{median(map(latency_us, whole)):.1f}" if whole else ABSENT


def summary(results: Results) -> str:
    """What a command prints at its end."""
    return f"{_table(results)}\n\n{page.not_ok(results)}"


def status(results: Results) -> Exit:
    """Done where something was measured."""
    return Exit.OK if any(row["status"] == OK for row in results.rows) else Exit.NOTHING
