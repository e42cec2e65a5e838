"""What hunts found: seeds by arm, and each finding with the command that replays it."""

from collections.abc import Sequence

from harness.errors import Exit
from harness.report import page
from harness.report.markdown import bullets, table
from harness.report.results import Results, verdict
from harness.studies.hunt.program import Record

LEAD = """Each seed draws an adversarial schedule and what is exchanged under it; every byte is compared with the
reference. A seed that fails is a finding, and replays exactly. An arm is not hunted further once it has one."""


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The report in Markdown."""
    return page.assemble(
        f"Hunt {results.name}",
        [LEAD, summary(results), "## Provenance", page.provenance(results)],
    )


def summary(results: Results) -> str:
    """What a command prints at its end."""
    found = [f"`{row.arm}`, {one}".replace("\n", "\n  - ") for row in results.of(Record) for one in row.findings]
    tables = ["## Seeds", _table(results.of(Record)), "## Findings", bullets(found)]
    return "\n\n".join([*tables, "## Void, failed or missing", page.not_ok(results)])


def status(results: Results) -> Exit:
    """Whether a seed failed; done where some have run and none did."""
    return verdict({row.status for row in results.of(Record)})


def _table(rows: Sequence[Record]) -> str:
    own = {row.arm: [one for one in rows if one.arm == row.arm] for row in rows}
    lines = [
        [
            f"`{arm}`",
            rows[0].protocol,
            f"{min(row.first_seed for row in rows):,}",
            f"{max(row.last_seed for row in rows):,}",
            f"{sum(row.seeds_run for row in rows):,}",
            f"{sum(len(row.failed_seeds) for row in rows):,}",
        ]
        for arm, rows in own.items()
    ]
    return table(["arm", "protocol", "first seed", "last seed", "seeds run", "seeds failed"], lines, range(2, 6))
