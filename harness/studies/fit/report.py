"""The page of a fit: how far off the simulator is, which constants the figures tell, and a machine file with them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from afdep import Machine
from harness.errors import Exit, ReportError
from harness.records.envelope import FAILED, OK
from harness.report import machine_file, page
from harness.report.markdown import bullets, images, signed
from harness.report.results import Results
from harness.studies.fit import findings, tables
from harness.studies.fit.archived import fits
from harness.studies.fit.findings import Identification, identification
from harness.studies.fit.fit import BEHIND, FREE_RUNNING, START_OFF, Fit, rms

UNFINISHED = "This fit is not whole: cells that it needs are not simulated, or its records are damaged. Run it again."


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The page in Markdown, provenance last."""
    found = fits(results)
    sections = [part for fit in filter(None, found) for part in (_lead(fit), *SECTIONS[fit.settings.target](fit))]
    ends = page.ends(results, [line for fit in filter(None, found) for line in _provenance(fit)])
    return page.assemble(f"Fit {results.name}", [*images(pictures), *sections, UNFINISHED * (None in found), *ends])


def summary(results: Results) -> str:
    """What a command prints at its end."""
    return "\n\n".join([*(_short(fit) if fit else UNFINISHED for fit in fits(results)), page.not_ok(results)])


def status(results: Results) -> Exit:
    """Done where every fit is decided."""
    rows = {str(row.get("status", OK)) for row in results.rows}
    undecided = Exit.ERROR if FAILED in rows else Exit.UNCLEAR
    return Exit.NOTHING if OK not in rows else Exit.OK if None not in fits(results) else undecided


def draw(results: Results, folder: Path, stem: str) -> list[tuple[Path, str]]:
    """Draw every plot of the page: its path, and a text for those who cannot see it."""
    done = [(f"{stem}{at or ''}", fit) for at, fit in enumerate(fits(results)) if fit is not None]
    whole = [(name, fit) for name, fit in done if fit.settings.target == "published"]
    return [
        *(tables.draw_errors(fit, folder / f"{name}-errors.png") for name, fit in done),
        *(tables.draw_slopes(fit, folder / f"{name}-slopes.png") for name, fit in whole),
    ]


def products(results: Results, path: Path, conf: Path) -> list[Path]:
    """Write a new machine file: that of the fitted machine, with the constants that the last fit found.

    Args:
        results: a fit.
        path: of the new file.
        conf: folder of configurations, with the machine files.

    Raises:
        ReportError: a fit that is not finished, or a machine file that has other values than when it was fitted.
        UsageError: a file is there, or it is not named as a machine file.
    """
    fit = fits(results)[-1]
    machine = None if fit is None else Machine.load(fit.settings.machine, conf / "machine")
    if fit is None or machine is None or machine.constants() != fit.settings.values:
        raise ReportError(
            "write: expected a finished fit of a machine file that is as it was, received another.",
            "Run the fit, again if the machine file has changed.",
        )
    source = f"fitted on the {fit.settings.fitted_on} by the study fit, {results.name}, from"
    changed = [
        replace(one, value=float(f"{fit.found[one.name]:.4g}"), source=f"{source} {one.value:g}")
        for one in machine.table
        if one.name in fit.found
    ]
    return [machine_file.write(conf / "machine" / f"{machine.name}.yaml", path, changed)]


def _lead(fit: Fit) -> str:
    told, source = fit.settings, fit.settings.source
    sources = (
        f"**The sources are not the same**: measured was {source.digest}, the tree that simulates has {source.own}; a "
        "difference may be one of the kernels."
        if source.digest != source.own
        else "Both ran the same native sources."
    )
    drawn = told.target == "published" and any(one.row.zipf_exponent for one in told.series)
    return (
        f"{len(told.free)} constants of {told.machine} are fitted on the {told.fitted_on}; everything else is held "
        f"out{', but for skew exponents, each on its own row' if drawn else ''}. *Simulated* is the machine file as "
        "it is; *refitted* is simulated too, with the constants that this fit found from there. "
        f"{sources if told.target == 'measured' else ''}"
    ).strip()


def _short(fit: Fit) -> str:
    """How far off it is, and the constants."""
    found = identification(fit)
    parts = [tables.residuals(fit), findings.constants(found), _condition(found)]
    return "\n\n".join(parts if fit.settings.target == "published" else [tables.overall(fit), _goal(fit), *parts[:2]])


def _of_table(fit: Fit) -> list[str]:
    found, told = identification(fit), fit.settings
    return [
        "## How far off each row is",
        "rms of simulated / published \u2212 1 over a row's cells. A refit that serves the fitted row alone has "
        "fitted its noise.",
        tables.residuals(fit),
        "## Which constants the figures tell",
        _search(fit),
        findings.constants(found),
        _identified(found),
        _condition(found),
        findings.directions(found),
        "## Rows left out, rows alone",
        "Refits of the fitted constants, linearised: one step from the Jacobian at the machine file's values, inside "
        f"their bounds and up to a factor {told.reach:g} either way. *Linearised* is what that step predicts; "
        "*simulated* is what the simulator gives with the constants that the step found. `row left out` is fitted on "
        "all rows but this one, `row alone` on this row and no other. rms of 100 log(simulated / published), round "
        "trips. Where the two differ much, the row is not linear that far, and the prediction means nothing.",
        findings.left_out(fit),
        "## What each row asks for",
        "Not simulated: the three constants whose change alone serves a row's round trips best, linearised, up to a "
        f"factor {told.reach:g} either way and inside the bounds of a fitted constant, and what that does to the "
        "fitted rows.",
        findings.moves(fit),
        *_other_hidden(fit),
        "## What each constant moves",
        f"d log(us) / d log(constant), rms over tokens: secants over a step of {told.step:.0%} from the machine "
        f"file's value, over the first exchanges of each cell (at most {told.slope_exchanges}, fewer where T is "
        "large), each against itself on the same routes. The median of their standard errors over exchanges is "
        f"{_errors(fit)}.",
        tables.slopes(fit, 0),
        tables.slopes(fit, 1),
        *_no_effect(fit),
        "## Cells",
        f"Each figure: {told.arms[1]} ({told.arms[0]}).",
        tables.published_cells(fit),
    ]


def _search(fit: Fit) -> str:
    return (
        f"Least squares over logarithms from the machine file's values, {len(fit.steps)} points tried of at most "
        f"{fit.settings.evaluations}, with an rms of {', '.join(f'{one.rms_pct:.1f}' for one in fit.steps)} %; a "
        f"constant doubled or halved costs as much as one figure that is wrong by {fit.settings.pull_pct:g} %. A "
        f"constant is called identified if its standard error is at most {fit.settings.identified_pct:g} %, its range "
        "moves the figures by the residual or more, and it is collinear with no other."
    )


def _other_hidden(fit: Fit) -> list[str]:
    """What the rows of a hidden size that no constant was fitted on need."""
    fitted = {fit.settings.place(at)[1].row.hidden for at in fit.settings.where(fitted=True)}
    rows = [row for row, one in enumerate(fit.settings.series) if one.row.hidden not in fitted]
    lead = ["## What another hidden size needs", "Rows of a hidden size that nothing was fitted on."] * bool(rows)
    return [*lead, *(part for row in rows for part in (f"### {fit.settings.label(row)}", tables.needs(fit, row)))]


def _identified(found: Identification) -> str:
    told = [f"`{name}`" for name in found.constants.index if found.verdict(name) == "identified"]
    groups = "; ".join(", ".join(f"`{name}`" for name in group) for group in found.groups) or "none"
    return (
        f"Identified: {', '.join(told) or 'none'}, {len(told)} of {len(found.constants)}. Groups whose columns "
        f"correlate by {found.fit.settings.collinear:g} or more: {groups}. Standard errors take the residuals of the "
        f"{len(found.residuals)} round trips at the machine file ({rms(found.residuals):.1f} % rms) for independent "
        f"errors with {found.freedom} degrees of freedom. Errors of a model are not independent, and the refit leaves "
        "less: they are a scale and no bound."
    )


def _condition(found: Identification) -> str:
    most = found.fit.settings.identified_pct
    return (
        f"Condition number of the Jacobian: {found.condition:.3g}. Of {len(found.constants)} directions, the figures "
        f"tell {(found.direction_errors_pct <= most).sum()} to within {most:g} %; along the others the constants trade "
        "against each other."
    )


def _errors(fit: Fit) -> str:
    """The median standard error of the slopes, by tokens."""
    found = {cell.tokens: fit.errors[:, fit.settings.where(tokens=cell.tokens)] for cell in fit.settings.cells}
    known = ((tokens, errors) for tokens, errors in found.items() if not np.isnan(errors).all())
    return ", ".join(f"{np.nanmedian(errors):.3f} at T = {tokens:,}" for tokens, errors in known) or "unknown"


def _no_effect(fit: Fit) -> list[str]:
    silent = [f"`{name}`" for name, slopes in zip(fit.settings.names, fit.slopes, strict=True) if not slopes.any()]
    left_out = [one for one in fit.settings.constants if one.name not in fit.settings.names]
    return [
        *[f"Without any effect on any cell: {', '.join(silent)}."] * bool(silent),
        *(f"No slope was taken of `{one.name}`: {one.reason}." for one in left_out),
    ]


def _of_devices(fit: Fit) -> list[str]:
    fitted, held_out = fit.settings.arms
    return [
        _goal(fit),
        "## How far off it is",
        tables.overall(fit),
        tables.residuals(fit),
        "## Where it is wrong",
        f"{_wrong(fit, 1)} {_wrong(fit, 0)}".strip(),
        f"{held_out}, by tokens per Attention rank, over all rows:",
        tables.by_tokens(fit, 1),
        f"The cells of {held_out} that are farthest off as refitted:",
        tables.worst(fit, 1),
        f"{fitted}, by tokens:",
        tables.by_tokens(fit, 0),
        f"Not simulated, and nothing is fitted to it: the constants whose change alone would serve {held_out} best in "
        f"the fitted rows, linearised at the machine file, up to a factor {fit.settings.reach:g} either way, and what "
        f"it would do to {fitted} there. They say which effect the model may lack, not what its value is.",
        findings.asked_for(fit),
        "## Which measured figure it is compared with",
        *_timing(fit),
        tables.starts(fit),
        "## Constants",
        _search(fit),
        findings.constants(identification(fit)),
        "Not fitted:",
        tables.others(fit),
        "## Cells",
        "Measured: the median over pairs of fresh processes (lowest to highest).",
        tables.measured_cells(fit),
        "Measured cells that are void, failed or missing:",
        bullets(fit.settings.source.absences),
    ]


def _goal(fit: Fit) -> str:
    told, cells = fit.settings, fit.settings.where(arm=1)
    found = {kind: rms(fit.off_pct(kind, cells)) for kind in tables.KINDS}
    return (
        f"The goal, an rms of at most {told.goal_pct:g} % over the held-out cells of {told.arms[1]}, is "
        f"{'met' if found['refitted'] <= told.goal_pct else 'not met'}: {found['refitted']:.1f} % over {len(cells)} "
        f"cells as refitted, {found['simulated']:.1f} % as the machine file has it."
        if cells
        else f"No cell of {told.arms[1]} was measured: only other cells of {told.arms[0]} are held out."
    )


def _wrong(fit: Fit, arm: int) -> str:
    off, most = fit.off_pct("refitted", fit.settings.where(arm=arm)), fit.settings.goal_pct
    low, high = (off < -most).sum(), (off > most).sum()
    return (
        f"Refitted, {fit.settings.arms[arm]} is off by {signed(float(off.min()))} to {signed(float(off.max()))} %; "
        f"{low + high} of its {len(off)} cells are off by more than {most:g} %, {low} of them low and {high} high."
        if off.size
        else ""
    )


def _timing(fit: Fit) -> list[str]:
    told, start = fit.settings, fit.settings.source.start_us
    free, start_off, behind = (len(told.where(timing=kind)) for kind in (FREE_RUNNING, START_OFF, BEHIND))
    return [
        "A simulated round trip runs free: on each Attention rank from the end of one exchange to the end of the "
        f"next, the mean over {told.num_exchanges} exchanges of the routes that the device timed. Measured "
        f"free-running replays are timed alike, back to back, and are compared as they are: {free} cells.",
        "A replay behind host barriers also holds its start: the launch of its graph, and the time until the ranks "
        "have found each other. That is once a replay, not once an exchange, and no constant of the machine stands "
        f"for it. It is measured: the replay's time less its exchanges running free, {start:.0f} us, the median over "
        f"the cells of {told.arms[0]} that were timed both ways ({_span(fit, 0)}). That over the exchanges of a "
        f"replay is taken off the other {start_off} cells before they are compared. {told.arms[1]}'s own starts "
        f"({_span(fit, 1)}) stand below and are not used. The last columns of the first table are without this step."
        if start is not None
        else f"{behind} cells were timed behind host barriers alone, and no cell of {told.arms[0]} both ways, so that "
        "their starts are unknown: they are compared as they are, and measured includes a start that simulated lacks.",
    ]


def _span(fit: Fit, arm: int) -> str:
    """The lowest, the highest and the median start of an arm."""
    found = sorted(cell.start_us for cell in fit.settings.cells if cell.arm == arm and cell.start_us is not None)
    return f"{found[0]:.0f} to {found[-1]:.0f} us, median {median(found):.0f}" if found else "none"


def _provenance(fit: Fit) -> list[str]:
    told, exchange = fit.settings, fit.settings.series[0].exchange
    published = (
        f"published: table {told.source.name} of the published record",
        f"top-{exchange.top_k}, capacity {exchange.capacity:,}, {exchange.transport_sms} transport SMs, "
        f"seed {exchange.seed}",
    )
    return [
        f"simulated: machine {told.machine}, native digest {fit.native_digest}; {told.num_exchanges} exchanges a timed "
        f"cell, at most {told.slope_exchanges} a slope",
        *(published if told.target == "published" else told.source.lines),
    ]


SECTIONS = {"published": _of_table, "measured": _of_devices}
