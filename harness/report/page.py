"""The parts that every page ends with: what does not count, and where its figures come from."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness import study
from harness.records.envelope import OK
from harness.report.markdown import bullets
from harness.report.results import Part, Results, counts


def assemble(title: str, sections: Sequence[str]) -> str:
    """A page in Markdown."""
    return "\n\n".join(part for part in (f"# {title}", *sections) if part) + "\n"


def ends(results: Results, more: Sequence[str] = ()) -> list[str]:
    """The last sections of a page: what does not count, and where its figures come from."""
    return ["## Void, failed or missing", not_ok(results), "## Provenance", provenance(results, more)]


def damaged(results: Results) -> list[str]:
    """Plans and records that cannot be read, each with its reason."""
    lines = [f"quarantined: {name}: {reason}" for name, reason in results.damaged.items()]
    return lines + [
        f"quarantined: {one.name}: {one.reason}" for part in results.parts for one in part.reading.quarantined
    ]


def not_ok(results: Results) -> str:
    """Trials whose latest attempt is void or failed, by reason; those that are missing; files that cannot be read."""
    rows = results.current(study.program(results.study).Record)
    found = Counter((row.status, row.reason) for row in rows if row.status != OK)
    lines = [f"{status}: {count:,} {'row' if count == 1 else 'rows'}: {why}" for (status, why), count in found.items()]
    for part in results.parts:
        if (missing := num_missing(part)) > 0:
            lines.append(f"missing: {missing:,} trials of plan {part.file.plan_hash if part.file else ''} were not run")
    return bullets(lines + damaged(results), "Void, failed or missing: none.")


def num_missing(part: Part) -> int:
    """Trials of every written round that no row is of."""
    if part.file is None or part.plan.format == 1:
        return 0
    keys = {
        part.plan.trial_key(batch, trial)
        for blocks in part.file.rounds()
        for block in blocks
        for batch in block.batches
        for trial in batch.trials
    }
    return len(keys - {row.get("key") for row in part.reading.rows})


def provenance(results: Results, more: Sequence[str] = ()) -> str:
    """Where the figures of a page come from, part by part."""
    lines = [line for part in results.parts for line in (_of_plan(part) if part.file else _of_records(part))]
    return bullets([*lines, *more])


def _of_plan(part: Part) -> list[str]:
    assert part.file is not None
    plan, rows = part.plan, part.reading.rows
    trees = "; ".join(f"{tree.name} {', '.join(digest for _, digest in tree.native)}" for tree in plan.trees)
    digests = [
        f"measuring {plan.measuring_digest}",
        *([f"machine {plan.machine_digest}"] if plan.machine_digest else []),
    ]
    states = counts(str(row["status"]) for row in rows if "status" in row) or "no records"
    return [
        f"command: `{part.file.command}`; plan {part.file.plan_hash} of {part.file.created}; {states}",
        f"tree and native digest: {trees}; {'; '.join(digests)}{_machines(rows)}",
    ]


def _of_records(part: Part) -> list[str]:
    told = dict.fromkeys(
        f"command: `{row['command']}`; {row.get('created')}" for row in part.reading.rows if row.get("command")
    )
    digests = sorted({str(row["native_digest"]) for row in part.reading.rows if row.get("native_digest")})
    harness = sorted({str(row["harness_digest"]) for row in part.reading.rows if row.get("harness_digest")})
    names = "; ".join(filter(None, (", ".join(digests[:4]), ", ".join(harness))))
    more = f" and {len(digests) - 4} more" if len(digests) > 4 else ""
    return [*told, f"digests: {names}{more}{_machines(part.reading.rows)}"] if digests or harness else [*told]


def _machines(rows: Sequence[dict[str, Any]]) -> str:
    found = sorted(
        {f"{row['backend']} on {row['machine']}" for row in rows if row.get("backend") and row.get("machine")}
    )
    return f"; {', '.join(found)}" if found else ""
