"""The report of the toy study."""

from harness.errors import Exit
from harness.records.envelope import OK
from harness.report import page
from harness.report.results import Results


def text(results: Results, pictures: object = ()) -> str:
    """The page in Markdown."""
    return page.assemble("Toys", [page.not_ok(results), page.provenance(results)])


def summary(results: Results) -> str:
    """What a command prints at its end."""
    return page.not_ok(results)


def status(results: Results) -> Exit:
    """Done where something counts."""
    return Exit.OK if any(row["status"] == OK for row in results.rows) else Exit.NOTHING
