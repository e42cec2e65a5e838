"""The page of screens: result tables of simulated plans, or what was measured beside figures of other kinds."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from harness.errors import Exit, ReportError
from harness.report import page
from harness.report.markdown import KIND_OF_BACKEND, bullets
from harness.report.published import upstream
from harness.report.results import Results
from harness.studies.screen import plots, tables
from harness.studies.screen.findings import Absence
from harness.studies.screen.tables import Beside, Found

RESULT_LEAD = (
    "Round trip, dispatch plus combine, in us, the maximum over Attention ranks; T is tokens per Attention rank. "
    "Each cell: {candidate} ({baseline}, paired change)."
)
FIT_LEAD = "How far the {kind} figures are from the published ones ({kind} minus published, over shared cells):"
MEASURED_LEAD = (
    "Round trips, dispatch plus combine, in us: of a fresh process the maximum over Attention ranks of the medians "
    "over replays, then the median over pairs, with the lowest and the highest pair, and the paired change against the "
    "first arm. Every process proved its exchanges bit for bit before it timed them. Each column holds one kind of "
    "figure: measured here, measured with the original library, published by others, or simulated."
)
HEADLINE_ARMS = ("m2n", "afdep")
HEADLINE = (
    "Round trip (dispatch plus combine) of {row} on {devices}, one rank a GPU: the median of {pairs} pairs of fresh "
    "processes, with the lowest and the highest, and the change against `m2n`. The change is of **roles and tuning "
    "together**: `afdep` also has faster kernels, and an arm that gives those to `m2n` is not measured yet."
)


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The page in Markdown, provenance last.

    Args:
        results: plans with their records.
        pictures: file name and text of each plot.
    """
    found = [Found(part) for part in results.parts]
    images = [f"![{words}]({name})" for name, words in pictures]
    title = "Measured round trips" if _measured(found) else f"Screen {results.name}"
    return page.assemble(
        title, [*body(found, images), "## Void, failed or missing", _absences(results, found), *_ends(results, found)]
    )


def block(results: Results) -> str:
    """The headline, for a page of prose: the first row of what was measured, with where it comes from.

    Raises:
        ReportError: nothing was measured of both arms.
    """
    for found in in_order(_measured([Found(part) for part in results.parts])):
        if set(HEADLINE_ARMS) <= {one.name for one in found.settings.arms} and found.findings.comparisons:
            row, devices = found.settings.rows[0].label, ", ".join(_devices(found))
            lead = HEADLINE.format(row=row, devices=devices, pairs=found.settings.backend.pairs)
            digests = ", ".join(dict.fromkeys(tree.native_digest("cuda") for tree in found.plan.trees))
            plan, place = found.plan.plan_hash, f"records/{results.study}/{results.name}"
            source = f"Plan {plan}, native digest {digests}; all records: `{place}`."
            return "\n\n".join([lead, tables.headline(found, HEADLINE_ARMS), source])
    raise ReportError(f"{results.name}: expected a measured screen of m2n and afdep, received none.", "Measure one.")


def body(found: Sequence[Found], images: Sequence[str] = ()) -> list[str]:
    """Tables and plots."""
    measured = _measured(found)
    if not measured:
        return [*(part for one in found for beside in tables.besides(one) for part in _arm_parts(beside)), *images]
    simulated = [one for one in found if one.settings.backend.device is None]
    others = upstream()
    sections = [MEASURED_LEAD, *images]
    for heading, group in itertools.groupby(in_order(measured), key=plots.timing):
        sections.append(f"## {heading}")
        for one in group:
            for index, row in enumerate(one.settings.rows):
                sections.append(f"### {row.label}\n\n{tables.measured_table(one, index, simulated, others)}")
    return sections


def summary(results: Results) -> str:
    """What a command prints at its end."""
    found = [Found(part) for part in results.parts]
    return "\n\n".join([*filter(None, body(found)), _absences(results, found), *_ends(results, found)])


def status(results: Results) -> Exit:
    """Done where some cell can be compared."""
    return Exit.OK if any(Found(part).findings.comparisons for part in results.parts) else Exit.NOTHING


def draw(results: Results, folder: Path, stem: str) -> list[tuple[Path, str]]:
    """Draw every plot of the page: its path, and a text for those who cannot see it."""
    found = [Found(part) for part in results.parts]
    if measured := _measured(found):
        return plots.measured(in_order(measured), upstream(), folder / f"{stem}-latency.png")
    drawn = []
    for beside in (beside for one in found for beside in tables.besides(one)):
        name = stem if len(beside.found.settings.arms) == 2 else f"{stem}-{beside.candidate_name}"
        name += f"-{beside.found.plan.plan_hash}" * (len(found) > 1)
        drawn += plots.both(beside, folder, name.replace("[", "-").replace("]", "").replace("=", ""))
    return drawn


def _measured(found: Sequence[Found]) -> list[Found]:
    return [one for one in found if one.settings.backend.device is not None]


def in_order(found: Sequence[Found]) -> list[Found]:
    """Measured plans as the page shows them: graph replays first, as upstream was timed first; what timed alike stands
    together.
    """

    def place(one: Found) -> tuple[bool, bool, int, str]:
        exchange, device = one.settings.exchange, one.settings.backend.device
        return exchange.mode != "graph", device.rendezvous != "host", exchange.transport_sms, plots.timing(one)

    return sorted(found, key=place)


def _arm_parts(beside: Beside) -> list[str]:
    names = {"candidate": beside.candidate_name, "baseline": beside.baseline_name}
    parts = [RESULT_LEAD.format(**names), tables.result_table(beside), _disagreeing(beside)]
    if beside.published is not None:
        kind = KIND_OF_BACKEND[beside.found.settings.backend.name]
        parts += [FIT_LEAD.format(kind=kind), tables.fit_table(beside)]
    return [part for part in parts if part]


def _disagreeing(beside: Beside) -> str:
    """Cells whose repeats do not all have the sign of their mean."""
    mixed = [
        f"{one.row.label}, T = {one.tokens}: {one.num_agreeing} of {len(one.pairs)}"
        for (_, _, arm), one in beside.found.findings.comparisons.items()
        if arm == beside.arm and one.num_agreeing < len(one.pairs) and len(one.pairs) > 1
    ]
    return f"Repeats that agree with their mean, where not all do: {'; '.join(mixed)}." if mixed else ""


def _absences(results: Results, found: Sequence[Found]) -> str:
    """Cells that do not count and attempts that were lost, those of one process and reason together."""
    lines = [line for one in found for line in listed(one.findings.absences, "")]
    lines += [line for one in found for line in listed(one.findings.lost, ", measured again")]
    return bullets([*lines, *page.damaged(results)], "Void, failed or missing cells: none.")


def listed(absences: Sequence[Absence], more: str) -> list[str]:
    """A line for each process and reason, with all cells that it is of."""
    grouped: dict[tuple[str, str, str, int, str], list[int]] = {}
    for one in absences:
        grouped.setdefault((one.status, one.row.label, one.arm, one.pair, one.reason), []).append(one.tokens)
    return [
        f"{status}{more}: {label}, {arm}, pair {pair + 1}, T = {', '.join(map(str, tokens))}: {reason}"
        for (status, label, arm, pair, reason), tokens in grouped.items()
    ]


def _ends(results: Results, found: Sequence[Found]) -> list[str]:
    """Where the figures come from."""
    lines = [line for one in found for line in _of_screen(one)]
    if any(tables.stands_beside_others(one.settings) for one in _measured(found)):
        lines.append(f"{tables.ORIGINAL}: records/upstream, whose README says what ran and how")
    return ["## Provenance", page.provenance(results, lines)]


def _of_screen(found: Found) -> list[str]:
    settings, exchange = found.settings, found.settings.exchange
    planned = sum(len(batch.trials) for block in found.plan.blocks for batch in block.batches)
    experts = ", ".join(dict.fromkeys(f"{row.num_experts} in {row.layout}" for row in settings.rows))
    lines = [
        f"plan {found.plan.plan_hash}: {found.findings.num_ok} of {planned} planned cells count; pairs per cell: "
        f"{settings.backend.pairs}; top-{exchange.top_k}, capacity {exchange.capacity:,}, experts {experts}; "
        f"{exchange.transport_sms} transport SMs, collect {exchange.collect}, {exchange.mode}; machine "
        f"{settings.backend.machine}, {settings.backend.placement}"
    ]
    if devices := _devices(found):
        lines.append(f"ran on {', '.join(devices)}")
    if libraries := tables.external_libraries(found):
        lines.append(f"external: {'; '.join(libraries)}")
    lines += [_published_line(beside) for beside in tables.besides(found) if beside.published is not None]
    return lines


def _devices(found: Found) -> list[str]:
    return sorted({f"{fact['gpus']} x {fact['device']}" for fact in found.facts if "device" in fact})


def _published_line(beside: Beside) -> str:
    table = beside.published
    assert table is not None
    return (
        f"published: table {table.table_id} of the published record, {table.nodes_gpus}, its digest "
        f"{table.native_digest}, {table.repeats} repeats, against the arm frozen at that digest"
    )
