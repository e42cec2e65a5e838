"""The page of a fit to measured round trips, from its record alone."""

from statistics import median

from harness.fit.measured import tables
from harness.fit.measured.study import (
    FITTED_ARM,
    HELD_OUT_ARM,
    REFITTED,
    SIMULATED,
    Study,
    error_pct,
    rms_pct,
    start_us,
)
from harness.fit.tables import signed
from harness.records.measured_fits import BEHIND, FREE, START_OFF


def text(name: str, study: Study, image: str = "") -> str:
    """The page in Markdown, provenance last."""
    parts = [
        f"# Fit {name}: {study.fit.run.machine} against what the device took",
        _lead(study),
        _goal(study),
        "## How far off it is",
        tables.overall(study),
        tables.by_row(study),
        image,
        *_where(study),
        "## Which measured figure it is compared with",
        _timing(study),
        tables.starts(study),
        "## Constants",
        _constants_lead(study),
        tables.constants(study, study.identification()),
        "Not fitted:",
        tables.others(study),
        "## Cells",
        "Measured: the median over pairs of fresh processes (lowest to highest).",
        tables.cells(study),
        "## Void, failed or missing",
        _absences(study),
        "## Provenance",
        _provenance(study),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(study: Study) -> str:
    """What a command prints at its end."""
    return "\n\n".join(["", tables.overall(study), _goal(study), tables.constants(study, study.identification())])


def _lead(study: Study) -> str:
    fitted, held_out = study.arms
    cells = study.where(fitted=True)
    rows = "; ".join(study.label(row) for row in study.rows if study.is_fitted_row(row))
    return (
        f"{len(study.free)} constants are fitted on {len(cells)} measured round trips of {fitted}: {rows}. No cell of "
        f"{held_out} is fitted on: {held_out} is held out. *Simulated* is the machine file as it is; *refitted* is "
        "simulated too, with the constants that this fit found from there; *measured* is what the device took, at the "
        f"same layout, SMs, dtype and routes. {_sources(study)}"
    )


def _sources(study: Study) -> str:
    run = study.fit.run
    if run.measured_digest == run.native_digest:
        return "Both ran the same native sources."
    return (
        f"**The sources are not the same**: measured was {run.measured_digest}, simulated is {run.native_digest}; a "
        "difference may be one of the kernels."
    )


def _goal(study: Study) -> str:
    goal = study.settings["goal_pct"]
    cells = study.where(arm=HELD_OUT_ARM)
    if not cells:
        return (
            f"No cell of {study.arms[1]} was measured, so nothing here is held out but other cells of {study.arms[0]}."
        )
    rms = rms_pct(cells, REFITTED)
    return (
        f"The goal, an rms of at most {goal:g} % over the held-out cells of {study.arms[1]}, is "
        f"{'met' if rms <= goal else 'not met'}: {rms:.1f} % over {len(cells)} cells as refitted, "
        f"{rms_pct(cells, SIMULATED):.1f} % as the machine file has it."
    )


def _where(study: Study) -> list[str]:
    """Where it is wrong: in which arm, at how many tokens, in which cells, and what would mend it."""
    fitted, held_out = study.arms
    return [
        "## Where it is wrong",
        _wrong(study),
        f"{held_out}, by tokens per Attention rank, over all rows:",
        tables.by_tokens(study, HELD_OUT_ARM),
        f"The cells of {held_out} that are farthest off as refitted:",
        tables.worst(study, HELD_OUT_ARM),
        f"{fitted}, by tokens:",
        tables.by_tokens(study, FITTED_ARM),
        _movers_lead(study),
        tables.movers(study),
    ]


def _wrong(study: Study) -> str:
    goal = study.settings["goal_pct"]
    sentences = []
    for arm in (HELD_OUT_ARM, FITTED_ARM):
        errors = [error_pct(cell, REFITTED) for cell in study.where(arm=arm)]
        if errors:
            beyond = [error for error in errors if abs(error) > goal]
            low = sum(error < 0 for error in beyond)
            span = f"{signed(min(errors), 1)} to {signed(max(errors), 1)} %"
            sentences.append(
                f"Refitted, {study.arms[arm]} is off by {span}; {len(beyond)} of its {len(errors)} cells are off by "
                f"more than {goal:g} %, {low} of them low and {len(beyond) - low} high."
            )
    return " ".join(sentences)


def _movers_lead(study: Study) -> str:
    reach = study.settings["reach"]
    return (
        f"Not simulated, and fitted to nothing: the constants whose change alone would serve {study.arms[1]} best in "
        f"the fitted rows, linearised at the machine file, up to a factor {reach:g} either way, and what it "
        f"would do to {study.arms[0]} there. They say which effect the model may lack, not what its value is."
    )


def _timing(study: Study) -> str:
    counts = {kind: len(study.where(timing=kind)) for kind in (FREE, START_OFF, BEHIND)}
    parts = [
        "A simulated round trip runs free: on each Attention rank from the end of one exchange to the end of the next, "
        f"the mean over {study.settings['num_exchanges']} exchanges of the routes that the device timed. Measured "
        f"free-running replays are timed alike, back to back, and are compared as they are: {counts[FREE]} cells."
    ]
    start = study.fit.run.start_us
    if start is not None:
        parts.append(
            "A replay behind host barriers also holds its start: the launch of its graph, and the time until the ranks "
            "have found each other. That is once a replay, not once an exchange, and no constant of the machine "
            f"stands for it. It is measured: the replay's time less its exchanges running free, {start:.0f} us, the "
            f"median over the cells of {study.arms[0]} that were timed both ways ({_span(study, FITTED_ARM)}). That "
            f"over the exchanges of a replay is taken off the other {counts[START_OFF]} cells before they are "
            f"compared. {study.arms[1]}'s own starts ({_span(study, HELD_OUT_ARM)}) stand below and are not used. The "
            "last columns of the first table are without this step."
        )
    if counts[BEHIND]:
        parts.append(
            f"{counts[BEHIND]} cells were timed behind host barriers alone, and no cell of {study.arms[0]} both ways, "
            "so that their starts are unknown: they are compared as they are, and measured includes a start that "
            "simulated does not have."
        )
    return " ".join(parts)


def _span(study: Study, arm: int) -> str:
    """The lowest, the median and the highest start of an arm."""
    found = sorted(start for start in map(start_us, study.where(arm=arm)) if start is not None)
    if not found:
        return "none"
    return f"{found[0]:.0f} to {found[-1]:.0f} us, median {median(found):.0f}"


def _constants_lead(study: Study) -> str:
    told = study.settings
    return (
        f"Fitted from the machine file's values by least squares over logarithms, {len(study.fit.steps)} points tried "
        f"of at most {told['evaluations']}; a constant doubled or halved costs as much as a cell wrong by "
        f"{told['pull_pct']:g} %. What the machine file has from a micro-benchmark is not fitted, but where it is said "
        "to be a part. A constant is called identified if its standard error is at most "
        f"{told['identified_pct']:g} %, its range moves the cells by the residual or more, and it is collinear with "
        "no other. The other constants are as the machine file says."
    )


def _absences(study: Study) -> str:
    """Cells of one process and reason stand together."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for one in study.fit.absences:
        counts = grouped.setdefault((one.status, one.what, one.plan_hash, one.reason), [])
        counts += [] if one.tokens is None else [f"{one.tokens:,}"]
    lines = []
    for (status, what, plan_hash, reason), counts in grouped.items():
        tokens = f", T = {', '.join(counts)}" if counts else ""
        lines.append(f"- {status}: {what}{tokens}, plan {plan_hash}: {reason}")
    return "\n".join(lines) or "None."


def _provenance(study: Study) -> str:
    run, told = study.fit.run, study.settings
    return "\n".join(
        [
            f"- command: `{run.command}`; {run.created}",
            f"- simulated: native digest {run.native_digest}; machine {run.machine}; harness {run.harness_digest}; "
            f"backend sim; {told['num_exchanges']} exchanges a cell, {told['slope_exchanges']} a slope",
            f"- measured: native digest {run.measured_digest}; backend cuda; {run.source} on "
            f"{run.devices or 'devices that were not told'}",
            *(f"- plan {one.plan_hash}, {one.timing}: `{one.command}`; {one.created}" for one in study.fit.plans),
        ]
    )
