"""The page of guards taken away and of places that are late, from records alone."""

import re
from collections.abc import Sequence

from harness.faults.judging import NOT_PLAYED, PASSED, TIME_OVER, VOID
from harness.faults.trials import EXACT
from harness.records.faults import FaultRecord
from harness.tables import ABSENT, markdown

_ERROR = re.compile(r"\b([A-Z]\w+Error): ")
"""What a finding of the hunt calls the error that it ended in."""

_LEAD = (
    "Each control is an edit of a copy of the tree that takes one fence, wait or barrier out of the kernels. The hunt "
    "plays it on the simulator, under schedules that it draws; GPUs play a library that is built from it, with "
    "exchanges that run free over poisoned memory, fresh rows, routes and weights each, compared bit for bit. In a "
    "library for GPUs every edit leaves a mark as it runs, and kernels can be held at the places that the second "
    "table names: a delay is set by the host for one trial. A trial in which a mark is missing is void. `passed` means "
    "that the guard was not missed in the exchanges that were played: no tick, but a bound on what such a run can see. "
    "What is simulated says nothing about a GPU, and what was measured nothing about other GPUs."
)


def text(name: str, records: Sequence[FaultRecord]) -> str:
    """The page in Markdown, provenance last."""
    parts = [
        f"# Faults {name}",
        *_cut_short(records),
        _LEAD,
        "## Guards taken away",
        _guards(records),
        "## Ends that must be exact",
        _ends(records),
        *_reasons(records),
        "## Provenance",
        _provenance(records),
    ]
    return "\n\n".join(parts) + "\n"


def not_played(records: Sequence[FaultRecord]) -> int:
    """Trials that no start has come to, as their command was cut short or its time was over."""
    return sum(one.reason in (NOT_PLAYED, TIME_OVER) for one in records)


def _cut_short(records: Sequence[FaultRecord]) -> list[str]:
    missing, trials = not_played(records), sum(one.backend == "cuda" for one in records)
    return [f"Cut short: {missing} of {trials} trials on GPUs were not played."] if missing else []


def summary(records: Sequence[FaultRecord]) -> str:
    """What a command prints at its end."""
    lines = _cut_short(records)
    for backend, word in (("sim", "simulated"), ("cuda", "measured")):
        for expects in ("exact", "caught"):
            own = [one for one in records if (one.backend, one.expects) == (backend, expects)]
            if own:
                lines.append(f"{word}, must be {expects}: {_counts(own)}")
    return "\n".join(lines)


def _counts(records: Sequence[FaultRecord]) -> str:
    outcomes = sorted({one.outcome for one in records})
    return ", ".join(f"{sum(one.outcome == outcome for one in records)} {outcome}" for outcome in outcomes)


def _guards(records: Sequence[FaultRecord]) -> str:
    """One line for each guard and delay; the hunt's outcome stands in the guard's first."""
    own = [one for one in records if one.expects != EXACT]
    rows = []
    for control in dict.fromkeys(one.control for one in own):
        hunts = [one for one in own if one.control == control and one.backend == "sim"]
        trials = [one for one in own if one.control == control and one.backend == "cuda"]
        arm = next(one.arm for one in own if one.control == control)
        first = [control, f"`{arm}`", _hunted(hunts)]
        for index, trial in enumerate(trials or [None]):
            rows.append([*(first if index == 0 else ["", "", ""]), *_measured(trial)])
    header = ["without the guard", "arm", "simulated: seeds until found", "layout", "measured: late", "outcome"]
    return markdown([*header, "exchanges played"], rows, frozenset((6,)))


def _hunted(hunts: Sequence[FaultRecord]) -> str:
    if not hunts:
        return ABSENT
    (one,) = hunts
    if one.outcome == PASSED:
        return f"not found in {one.seeds}"
    if one.reason == "data race":
        return one.outcome.removeprefix("caught: ")
    named = _ERROR.search(str(one.reason))
    return f"{one.seeds}{'' if named is None else f', {named[1]}'}"


def _measured(one: FaultRecord | None) -> list[str]:
    if one is None:
        return [ABSENT] * 4
    late = ABSENT if one.late is None else f"{one.late}, {one.late_us} us"
    played = ABSENT if one.outcome == VOID else f"{one.exchanges:,}"
    return [str(one.layout), late, one.outcome, played]


def _ends(records: Sequence[FaultRecord]) -> str:
    """The kernels as shipped and with every delay: a column for the hunt, and one for each arm and layout measured."""
    own = [one for one in records if one.expects == EXACT]
    trials = [one for one in own if one.backend == "cuda"]
    places = list(dict.fromkeys((one.layout, one.arm) for one in trials))
    rows = [
        ["simulated: the hunt, whose schedules delay", ", ".join(_simulated(own)) or ABSENT, *[ABSENT] * len(places)]
    ]
    for control, late, late_us in dict.fromkeys((one.control, one.late, one.late_us) for one in trials):
        by_place = {(t.layout, t.arm): t for t in trials if (t.control, t.late) == (control, late)}
        label = control if late is None else f"late {late}, {late_us} us"
        rows.append([label, ABSENT, *(_exact(by_place.get(place)) for place in places)])
    header = ["kernels", "simulated", *(f"measured: {layout} `{arm}`" for layout, arm in places)]
    return markdown(header, rows)


def _simulated(records: Sequence[FaultRecord]) -> list[str]:
    return [f"`{one.arm}` {one.outcome}, {one.seeds:,} seeds" for one in records if one.backend == "sim"]


def _exact(one: FaultRecord | None) -> str:
    if one is None:
        return ABSENT
    return f"{one.outcome}, {one.exact:,} exchanges" if one.outcome == EXACT else one.outcome


def _reasons(records: Sequence[FaultRecord]) -> list[str]:
    """What was said of each trial on GPUs that is not exact, a void one included."""
    lines = [
        f"- {one.outcome}: {one.control} ({one.layout}{'' if one.late is None else f', late {one.late}'}): {one.reason}"
        for one in records
        if one.backend == "cuda" and one.reason is not None
    ]
    return ["## What was said on GPUs", "\n".join(lines)] if lines else []


def _provenance(records: Sequence[FaultRecord]) -> str:
    lines = []
    for backend, word in (("sim", "simulated"), ("cuda", "measured")):
        own = [one for one in records if one.backend == backend]
        if not own:
            continue
        first, machines = own[0], ", ".join(sorted({one.machine for one in own}))
        seconds = sum(one.seconds for one in own)
        lines += [
            f"- {word}: `{first.command}`; {first.created}; harness {first.harness_digest}",
            f"- {word} on {machines}; {seconds:.0f} s; {_counts(own)}",
            *_seats(own),
        ]
    digests = sorted({str(one.native_digest) for one in records if one.expects == EXACT and one.native_digest})
    lines.append(
        f"- native digests of the kernels as shipped, and with marks and delays: {', '.join(digests) or ABSENT}"
    )
    shapes = sorted({_shape(one) for one in records if one.backend == "cuda"})
    lines += [f"- shape on GPUs: {shape}" for shape in shapes]
    return "\n".join(lines)


def _seats(records: Sequence[FaultRecord]) -> list[str]:
    """Layouts whose ranks share GPUs."""
    shared = sorted({(one.layout, one.ranks_per_gpu) for one in records if one.layout and one.ranks_per_gpu > 1})
    return [f"- {layout}: {ranks} ranks a GPU, under MPS" for layout, ranks in shared]


def _shape(one: FaultRecord) -> str:
    return (
        f"hidden {one.hidden:,}, {one.num_experts} experts, top-{one.top_k}, {one.tokens:,} tokens a source, "
        f"{one.transport_sms} transport SMs"
    )
