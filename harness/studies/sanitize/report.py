"""The page of runs under compute-sanitizer, from records alone."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from textwrap import indent

from harness.errors import Exit
from harness.records.envelope import VOID
from harness.report import page
from harness.report.markdown import ABSENT, bullets, table
from harness.report.results import Results, verdict
from harness.studies.sanitize.program import GOOD, Record, outcome

_LEAD = (
    "1A1F on two GPUs, each rank under a tool of its own, a few exchanges called by the host and compared bit for bit. "
    "A tool passes where it reports nothing of the sound tree and, in the same kind of run, reports the fault that was "
    "injected for it: without that its silence would say nothing. memcheck is told not to report errors of API calls. "
    "racecheck looks at shared memory alone; neither tool sees an order that is missing between GPUs."
)


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The page in Markdown, provenance last."""
    runs = _runs(results)
    rows = [one for run in runs for one in run]
    firsts = [(_name(one), "\n".join(one.said.splitlines()[:6])) for one in rows if one.said]
    said = dict.fromkeys(f"{name}:\n\n{indent(first, '    ')}" for name, first in firsts)
    digests = dict.fromkeys(f"{one.tree} {one.native_digest}" for one in rows if one.native_digest)
    versions = dict.fromkeys(one.version for one in rows if one.version)
    return page.assemble(
        "Under compute-sanitizer",
        [
            _LEAD,
            _table(runs),
            "## Injected faults",
            bullets(dict.fromkeys(f"`{one.tree}`, for {one.tool}: {one.control}" for one in rows if one.control)),
            "## What the tools said first",
            *said,
            *page.ends(results, [*versions, f"trees and native digests: {', '.join(digests) or ABSENT}"]),
        ],
    )


def summary(results: Results) -> str:
    """What a command prints at its end."""
    bad = [f"{_name(one)}: {word}" for run in _runs(results) for one in run if (word := outcome(one, run)) not in GOOD]
    fine = [] if bad else ["each tool is silent on the sound tree and reports its injected fault"]
    return "\n".join([*bad, *fine, page.not_ok(results)])


def status(results: Results) -> Exit:
    """Found where a tool was not silent, or missed its fault; nothing where something was not run."""
    found = {one.status for one in results.current(Record)}
    return verdict(found, VOID in found or any(map(page.num_missing, results.parts)))


def _runs(results: Results) -> list[list[Record]]:
    return [list(ranks) for _, ranks in groupby(results.current(Record), attrgetter("tool", "arm", "tree"))]


def _table(runs: Sequence[Sequence[Record]]) -> str:
    columns = attrgetter("tool", "arm", "tree", "rank", "exchanges", "errors", "exit_code")
    lines = [[*columns(one), outcome(one, run)] for run in runs for one in run]
    ranks = ["rank", "exchanges exact", "errors reported", "exit code"]
    return table(["tool", "arm", "tree", *ranks, "outcome"], lines, (3, 4, 5, 6))


def _name(one: Record) -> str:
    return f"{one.tool} {one.arm} {one.tree}{'' if one.rank is None else f' rank {one.rank}'}"
