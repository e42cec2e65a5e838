"""`records`: what the record files of a plan hold, and a way to keep them in the repository."""

from collections import Counter
from collections.abc import Sequence

from harness import keeping, tables
from harness.compose import compose
from harness.errors import UsageError
from harness.selection import select
from harness.surroundings import NOTHING, OK, Surroundings
from harness.words import as_kept_name

PUBLISHED = "published"
"""The folder of published figures, which takes no other records."""


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Count records by arm and status; name files that cannot be read; copy them on request."""
    config = compose("records", texts, around.repository / "conf")
    name = _folder_name(as_kept_name(config["keep"], "first-light"))
    selection = select(config, around.repository)
    reading = selection.reading
    counts = Counter((record.arm, record.native_digest, record.status) for record in reading.records)
    lines = [[*key, str(count)] for key, count in sorted(counts.items())]
    around.print_line(f"plan {selection.plan_file.plan_hash}: {reading.num_files} record files")
    around.print_line(tables.markdown(["arm", "native digest", "status", "records"], lines, frozenset({3})))
    for one in reading.quarantined:
        around.print_line(f"quarantined: {one.name}: {one.reason}")
    if name is not None:
        kept = keeping.keep(selection, around.repository / "records" / name)
        around.print_line(f"kept: {kept.relative_to(around.repository)}")
    return OK if any(record.status == "ok" for record in reading.records) else NOTHING


def _folder_name(name: str | None) -> str | None:
    if name == PUBLISHED:
        raise UsageError(
            f"keep: expected another name than {PUBLISHED}, received it.", "It holds the published figures: choose one."
        )
    return name
