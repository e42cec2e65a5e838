"""`claims`: the published claims, by kind and by what it takes to decide them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness import published, records, tables
from harness.compose import compose
from harness.surroundings import OK, Surroundings
from harness.words import as_choice

ANY = "any"


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Count claims by kind; with a kind, list its claims. A claim is decided by records from devices alone."""
    config = compose("claims", texts, around.repository / "conf")
    kept = around.repository / "records"
    claims = published.claims(kept / "published" / "claims.csv")
    counts = Counter(claim["kind"] for claim in claims)
    kind = as_choice("kind", config["kind"], (ANY, *sorted(counts)))
    lines = [[one, str(counts[one])] for one in sorted(counts) if kind in (ANY, one)]
    around.print_line(tables.markdown(["kind", "claims, not run"], lines, frozenset({1})))
    for claim in claims:
        if claim["kind"] == kind:
            around.print_line(f"- {claim['id']} (needs {claim['needs']}): {claim['statement']}")
    around.print_line(f"Device records kept: {_num_device_records(kept)}; simulated figures decide no claim.")
    return OK


def _num_device_records(kept: Path) -> int:
    reading = records.read(sorted(kept.rglob("*.parquet")))
    return sum(record.backend != "sim" for record in reading.records)
