"""The page of a fit, from its record alone."""

from collections.abc import Sequence
from statistics import median

from harness.fit import tables
from harness.fit.identify import Identification, identify
from harness.fit.leave_out import leave_one_out, movers
from harness.fit.study import Study
from harness.tables import row_label


def text(name: str, study: Study, images: Sequence[str] = ()) -> str:
    """The page in Markdown, provenance last."""
    found = identify(study)
    error_image, slope_image = [*images, "", ""][:2]
    parts = [
        f"# Fit {name} of {study.fit.run.machine}",
        _lead(study),
        "## How far off each row is",
        _residual_lead(study),
        tables.residuals(study),
        error_image,
        "## Which constants the figures tell",
        *_identification(study, found),
        "## Rows left out, rows alone",
        _refit_lead(study),
        tables.refits(study, leave_one_out(study)),
        "## What each row asks for",
        _move_lead(study),
        tables.moves(study, [movers(study, row) for row in range(len(study.rows))]),
        *_other_hidden(study),
        "## What each constant moves",
        _slope_lead(study),
        slope_image,
        *(tables.slopes(study, arm) for arm in (0, 1)),
        *_no_effect(study),
        "## Cells",
        f"Each figure: {study.arms[1]} ({study.arms[0]}).",
        tables.cells(study),
        "## Provenance",
        _provenance(study),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(study: Study) -> str:
    """What a command prints at its end."""
    found = identify(study)
    return "\n\n".join(["", tables.residuals(study), tables.constants(study, found), _condition(found)])


def _lead(study: Study) -> str:
    rows = "; ".join(row_label(study.rows[row]) for row in study.fitted_rows)
    cells = len(study.fitted_rows) * len(study.tokens)
    exponents = sum(row.zipf_exponent is not None for row in study.rows)
    skew = f", and {exponents} skew exponent on its own row, {len(study.free) + exponents} in all" if exponents else ""
    return (
        f"{len(study.free)} constants are fitted on {rows}: {2 * cells} round trips and {cells} paired changes, which "
        f"follow from the round trips but for rounding{skew}. Every other row is held out. *Simulated* is the machine "
        "file as it is; *refitted* is simulated too, with the constants that this fit found from there, and is no "
        "machine of this tree; *published* is the published record. Nothing here decides a claim about a GPU."
    )


def _residual_lead(study: Study) -> str:
    return (
        "rms of simulated / published \u2212 1 over a row's cells. A refit that serves the fitted row and not the "
        "others has fitted its noise."
    )


def _identification(study: Study, found: Identification) -> list[str]:
    lead = (
        f"From the Jacobian of the {len(found.residuals)} fitted round trips at the machine file's values. Standard "
        f"errors take the residuals there ({found.residual_pct:.1f} % rms) for independent errors with {found.freedom} "
        "degrees of freedom left. Errors of a model are not independent, and the refit leaves less: they are a scale "
        f"and no bound. A constant is called identified if its standard error is at most {found.identified_pct:g} %, "
        "its range moves the figures by the residual or more, and it is collinear with no other."
    )
    groups = "; ".join(", ".join(f"`{name}`" for name in group) for group in found.groups) or "none"
    collinear = f"Groups whose columns correlate by {found.collinear:g} or more: {groups}."
    told = [name for index, name in enumerate(found.names) if found.verdict(index) == "identified"]
    verdict = f"Identified: {', '.join(f'`{name}`' for name in told) or 'none'}, {len(told)} of {len(found.names)}."
    return [lead, tables.constants(study, found), verdict, collinear, _condition(found), tables.directions(found)]


def _condition(found: Identification) -> str:
    seen = sum(error <= found.identified_pct for error in found.direction_errors_pct)
    return (
        f"Condition number of the Jacobian: {found.condition:.3g}. Of {len(found.names)} directions, the figures tell "
        f"{seen} to within {found.identified_pct:g} %; along the others the constants trade against each other."
    )


def _other_hidden(study: Study) -> list[str]:
    """What the rows of a hidden size that no constant was fitted on need."""
    fitted = {study.rows[row].hidden for row in study.fitted_rows}
    rows = [row for row, one in enumerate(study.rows) if one.hidden not in fitted]
    parts = [part for row in rows for part in (f"### {row_label(study.rows[row])}", tables.needs(study, row))]
    return ["## What another hidden size needs", _need_lead(), *parts] if rows else []


def _need_lead() -> str:
    return (
        "Simulated against published, with the constants of the machine file and with the refitted ones, which know of "
        "no such row. The constants that move a cell most stand beside it, with their slopes, the mean over both arms."
    )


def _refit_lead(study: Study) -> str:
    return (
        "Refits of the fitted constants, linearised: one step from the Jacobian at the machine file's values, inside "
        f"their bounds and up to a factor {study.settings['reach']:g} either way. *Linearised* is what that step "
        "predicts, *simulated* what the simulator gives with the constants that it found. `row left out` is fitted on "
        "all rows but this one, `row alone` on this row and no other. rms of 100 log(simulated / published), round "
        "trips. Where the two are far apart, the row is not linear as far as that, and the prediction means nothing."
    )


def _move_lead(study: Study) -> str:
    return (
        "Not simulated: the three constants whose change alone serves a row's round trips best, linearised, up to a "
        f"factor {study.settings['reach']:g} either way and inside the bounds of a fitted constant, and what it does "
        "to the fitted rows."
    )


def _slope_lead(study: Study) -> str:
    told = study.settings
    return (
        f"d log(us) / d log(constant), rms over tokens; a secant to {told['step']:.0%} beside the machine file's "
        f"value, over the first exchanges of each cell (at most {told['most_exchanges']}, fewer where T is large), "
        "each against itself on the same routes. The record has every cell, and its standard error where more than one "
        f"exchange ran; the median of these is {_slope_errors(study)}."
    )


def _slope_errors(study: Study) -> str:
    errors: dict[int, list[float]] = {}
    for one in study.fit.slopes:
        if one.error is not None:
            errors.setdefault(one.tokens, []).append(one.error)
    return ", ".join(f"{median(found):.3f} at T = {tokens:,}" for tokens, found in errors.items())


def _no_effect(study: Study) -> list[str]:
    silent = [
        f"`{name}`" for name, slope in zip(study.constants, study.slopes, strict=True) if not abs(slope).max() > 0
    ]
    found = [f"Without any effect on any cell: {', '.join(silent)}."] if silent else []
    # A record of a machine without such constants does not name them.
    reasons = study.settings.get("no_effect", {})
    return [*found, *(f"No slope was taken of `{name}`: {reason}." for name, reason in reasons.items())]


def _provenance(study: Study) -> str:
    run, told = study.fit.run, study.settings
    return "\n".join(
        [
            f"- command: `{run.command}`; {run.created}",
            f"- native digest {run.native_digest}; machine {run.machine}; harness {run.harness_digest}; backend sim",
            f"- top-{told['top_k']}, capacity {told['capacity']:,}, {told['transport_sms']} transport SMs, seed "
            f"{told['seed']}, {told['num_exchanges']} exchanges a timed cell",
            f"- fit: {len(study.fit.steps)} points tried of at most {told['evaluations']}; a constant doubled or "
            f"halved costs as much as a figure wrong by {told['pull_pct']:g} %",
            f"- published: table {run.published} of the published record",
        ]
    )
