"""The page of runs under compute-sanitizer: `python -m harness.sanitizer.page RECORD PAGE`, from the record alone."""

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.leaving import leave
from harness.records.sanitizings import SanitizerRecord, read_sanitizing
from harness.tables import ABSENT, markdown
from harness.workspace import write_page

SILENCE = "silence"
NOT_PLAYED = "not played: the command ended before it"

_LEAD = (
    "1A1F on two GPUs, each rank under a tool of its own, a few exchanges called by the host and compared bit for bit. "
    "A tool passes where it reports nothing of the sound tree and, in the same kind of run, reports the fault that was "
    "planted for it: without that its silence would say nothing. memcheck is told not to report errors of API calls. "
    "racecheck looks at shared memory alone; neither tool sees an order that is missing between GPUs."
)


def main(words: Sequence[str]) -> int:
    """Write the page of a record."""
    write_page(Path(words[1]), text(read_sanitizing(Path(words[0]))))
    return 0


def text(records: Sequence[SanitizerRecord]) -> str:
    """The page in Markdown, provenance last."""
    rows = [
        [
            one.tool,
            one.arm,
            one.tree,
            str(one.rank),
            *map(_number, (one.exchanges, one.errors)),
            _code(one),
            outcome(one, records),
        ]
        for one in records
    ]
    header = ["tool", "arm", "tree", "rank", "exchanges exact", "errors reported", "exit code", "outcome"]
    plants = dict.fromkeys(f"- `{one.tree}`, for {one.tool}: {one.plant}" for one in records if one.plant)
    said = dict.fromkeys(
        f"{one.tool} {one.arm} {one.tree} rank {one.rank}:\n\n{_quoted(one.said)}"
        for one in records
        if one.said and one.said != NOT_PLAYED
    )
    parts = ["# Under compute-sanitizer", *_cut_short(records), _LEAD, markdown(header, rows, frozenset((3, 4, 5, 6)))]
    parts += ["## Planted faults", "\n".join(plants), "## What the tools said first", *said, "## Provenance"]
    return "\n\n".join([*parts, _provenance(records)]) + "\n"


def _cut_short(records: Sequence[SanitizerRecord]) -> list[str]:
    missing = sum(one.said == NOT_PLAYED for one in records)
    return [f"Cut short: {missing} of {len(records)} ranks were not played."] if missing else []


def outcome(one: SanitizerRecord, records: Sequence[SanitizerRecord]) -> str:
    """What came of a rank's run, in words."""
    if one.said == NOT_PLAYED:
        return "not played"
    if one.exit_code is None:
        return "ended for its limit"
    if one.errors is None:
        return "no summary of the tool"
    if one.expects != SILENCE:
        reported = one.errors > 0 and one.in_kernel
        return (
            "reported" if reported else "reported on the other rank" if _is_reported(one, records) else "NOT reported"
        )
    if one.errors or one.exit_code:
        return "FAILED"
    return "silent" if one.exchanges else "no exchange compared"


def faults(records: Sequence[SanitizerRecord]) -> list[str]:
    """What keeps the runs from saying what they are to say."""
    good = {"silent", "reported", "reported on the other rank"}
    told = [(one, outcome(one, records)) for one in records]
    return [f"{one.tool} {one.arm} {one.tree} rank {one.rank}: {word}" for one, word in told if word not in good]


def summary(records: Sequence[SanitizerRecord]) -> str:
    """What a command prints at its end."""
    return "\n".join(faults(records) or ["each tool is silent on the sound tree and reports its plant"])


def _is_reported(one: SanitizerRecord, records: Sequence[SanitizerRecord]) -> bool:
    others = [other for other in records if (other.tool, other.tree, other.arm) == (one.tool, one.tree, one.arm)]
    return any(bool(other.errors) and other.in_kernel for other in others)


def _number(value: int | None) -> str:
    return ABSENT if value is None else f"{value:,}"


def _code(one: SanitizerRecord) -> str:
    return ABSENT if one.exit_code is None else str(one.exit_code)


def _quoted(said: str) -> str:
    return "\n".join(f"    {line}" for line in said.splitlines()[:6])


def _provenance(records: Sequence[SanitizerRecord]) -> str:
    first = records[0]
    digests = dict.fromkeys(f"{one.tree} {one.native_digest}" for one in records if one.native_digest)
    longest = max(one.seconds for one in records)
    lines = [
        f"- {first.version}; {first.created}; harness {first.harness_digest}",
        f"- trees and native digests: {', '.join(digests) or ABSENT}",
        f"- the longest run took {longest:.0f} s",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
