"""The page of injected faults and late kernels, from records alone."""

import itertools
import re
from collections.abc import Sequence

from harness.errors import Exit
from harness.records.envelope import OK, VOID
from harness.report import page
from harness.report.markdown import ABSENT, KIND_OF_BACKEND, bullets, table
from harness.report.results import Results, counts, verdict
from harness.studies.faults.program import Record, outcome
from harness.studies.faults.trials import EXACT

_ERROR = re.compile(r"\b([A-Z]\w+Error): ")
"""What a finding of the hunt calls the error that it ended in."""

_LEAD = (
    "Each fault is an edit of a copy of the tree that takes one fence, wait or barrier out of the kernels. The hunt "
    "runs it on the simulator, under schedules that it draws. GPUs run a library that is built from it: exchanges "
    "without a pause over poisoned memory, with fresh rows, routes and weights each, compared bit for bit. In a "
    "library for GPUs every edit leaves a mark as it runs, and kernels can be held up at the places that the second "
    "table names; the host sets a delay for one trial. A trial in which a mark is missing is void. `passed` does not "
    "mean safe: it means that the exchanges that were run could not expose the fault. Simulated figures say nothing "
    "about a GPU, and measured ones nothing about other GPUs."
)


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The page in Markdown, provenance last."""
    rows = results.current(Record)
    said = [
        f"{outcome(one)}: {one.control} ({one.layout}{f', late {one.late}' if one.late else ''}): {reason}"
        for one in rows
        if one.backend == "cuda" and (reason := one.said or one.reason)
    ]
    return page.assemble(
        f"Faults {results.name}",
        [
            _LEAD,
            "## Injected faults",
            _faults([one for one in rows if one.expects != EXACT]),
            "## Kernels that must be exact",
            _exact([one for one in rows if one.expects == EXACT]),
            "## What was said on GPUs",
            bullets(said, "Nothing."),
            *page.ends(results, _runs(rows)),
        ],
    )


def summary(results: Results) -> str:
    """What a command prints at its end."""
    rows = results.current(Record)
    lines = []
    for backend, expects in dict.fromkeys((one.backend, one.expects) for one in rows):
        ends = [outcome(one) for one in rows if (one.backend, one.expects) == (backend, expects)]
        lines.append(f"{KIND_OF_BACKEND[backend]}, must be {expects}: {counts(ends)}")
    return "\n".join([*lines, page.not_ok(results)])


def status(results: Results) -> Exit:
    """Found where kernels that had to be exact are not; nothing where all is void or a trial was not run."""
    rows = results.current(Record)
    idle = any(one.status == VOID and one.exchanges is None and one.seeds is None for one in rows)
    return verdict({one.status for one in rows}, idle or any(map(page.num_missing, results.parts)))


def _faults(rows: Sequence[Record]) -> str:
    """One line for each fault and delay; the hunt's outcome stands in the fault's first."""
    lines: list[list[str | None]] = []
    for control in dict.fromkeys(one.control for one in rows):
        own = [one for one in rows if one.control == control]
        hunt = next((one for one in own if one.backend == "sim"), None)
        first = [control, f"`{own[0].arm}`", hunt and _hunted(hunt)]
        measured = [_measured(one) for one in own if one.backend == "cuda"] or [[None] * 4]
        lines += [[*head, *cells] for head, cells in itertools.zip_longest([first], measured, fillvalue=[""] * 3)]
    header = ["without the guard", "arm", "simulated: seeds until found", "layout", "measured: late", "outcome"]
    return table([*header, "exchanges played"], lines, (6,))


def _hunted(one: Record) -> str:
    if one.status != OK:
        return outcome(one)
    if one.caught is None:
        return f"not found in {one.seeds}"
    named = _ERROR.search(str(one.said))
    return one.caught if one.caught != "hunt" else f"{one.seeds}{f', {named[1]}' if named else ''}"


def _measured(one: Record) -> list[str | None]:
    late = f"{one.late}, {one.late_us} us" if one.late else None
    return [one.layout, late, outcome(one), None if one.status == VOID else f"{one.exchanges:,}"]


def _exact(rows: Sequence[Record]) -> str:
    """A column for the hunt, and one for each arm and layout that was measured."""
    hunts = ", ".join(f"`{one.arm}` {outcome(one)}, {one.seeds:,} seeds" for one in rows if one.backend == "sim")
    trials = [one for one in rows if one.backend == "cuda"]
    places = dict.fromkeys((one.layout, one.arm) for one in trials)
    cells: dict[str, dict[tuple[str | None, str], str]] = {}
    for one in trials:
        kernels = f"late {one.late}, {one.late_us} us" if one.late else one.control
        said = outcome(one) + f", {one.exact:,} exchanges" * (one.status == OK)
        cells.setdefault(kernels, {})[one.layout, one.arm] = said
    lines = [[kernels, None, *map(own.get, places)] for kernels, own in cells.items()]
    header = ["kernels", "simulated", *(f"measured: {layout} `{arm}`" for layout, arm in places)]
    return table(header, [["simulated: the hunt, whose schedules delay", hunts or None, *[None] * len(places)], *lines])


def _runs(rows: Sequence[Record]) -> list[str]:
    """Which kernels had to be exact, what shares a GPU, and the shapes that GPUs ran."""
    own = [one for one in rows if one.backend == "cuda"]
    digests = sorted({str(one.native_digest) for one in rows if one.expects == EXACT and one.native_digest})
    shared = sorted(
        {f"{one.layout}: {one.ranks_per_gpu} ranks a GPU, under MPS" for one in own if one.ranks_per_gpu > 1}
    )
    shapes = sorted(
        {
            f"shape on GPUs: hidden {one.hidden:,}, {one.num_experts} experts, top-{one.top_k}, {one.tokens:,} tokens "
            f"a source, {one.transport_sms} transport SMs"
            for one in own
        }
    )
    return [
        f"native digests of the kernels as shipped, and with marks and delays: {', '.join(digests) or ABSENT}",
        *shared,
        *shapes,
    ]
