"""`claims`: the published claims, by kind and by what it takes to decide them."""

from collections import Counter
from collections.abc import Sequence

from harness.config.compose import compose
from harness.config.read import one_of
from harness.desk.desk import Desk
from harness.errors import Exit
from harness.records.table import read, record_files
from harness.report import published
from harness.report.markdown import table

ANY = "any"


def run(texts: Sequence[str], desk: Desk) -> int:
    """Count claims by kind; with a kind, list its claims. A claim is decided by records from devices alone."""
    config = compose("command/claims", texts, desk.conf)
    claims = published.read(published.CLAIMS)
    counts = Counter(claim["kind"] for claim in claims)
    kind = one_of("kind", config["kind"], (ANY, *sorted(counts)))
    lines = [[one, str(counts[one])] for one in sorted(counts) if kind in (ANY, one)]
    desk.print_line(table(["kind", "claims, not run"], lines, [1]))
    for claim in claims:
        if claim["kind"] == kind:
            desk.print_line(f"- {claim['id']} (needs {claim['needs']}): {claim['statement']}")
    rows = read(record_files(desk.root / "records")).rows
    devices = sum(row["table"] == "round_trips" and row["backend"] != "sim" for row in rows)
    desk.print_line(f"Device records kept: {devices}; simulated figures decide no claim.")
    return Exit.OK
