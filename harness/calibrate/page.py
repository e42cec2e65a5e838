"""The page of a calibration, from its record alone."""

from collections.abc import Sequence

from harness.calibrate.judging import RULE_OF, Reading
from harness.records.calibrations import (
    KEPT,
    MEASURED,
    VOID,
    Calibration,
    CalibrationConstant,
    CalibrationReading,
    CalibrationRun,
)
from harness.tables import ABSENT, markdown

LEAD = (
    "Constants of the simulated machine, measured on a device by micro-benchmarks, beside those of the machine file. "
    "*Measured* is the median of the probe's samples, or what the rule makes of several medians; \u00b1 is half the "
    "distance from the 10th to the 90th percentile, carried through the rule. *File* is what its source says: measured "
    "before, estimated, public, fitted or documented. A constant that was fitted stands for effects that the model "
    "does not have one by one: a measurement of its name need not be a better value of it."
)

KINDS = {
    "measured": "measured",
    "estimate": "estimated",
    "public": "public",
    "fitted": "fitted",
    "as fitted": "fitted",
    "data sheet": "documented",
    "CUDA programming guide": "documented",
}
"""What a value of a machine file is, by the words that its source begins with."""


def text(name: str, calibration: Calibration) -> str:
    """The page in Markdown, provenance last."""
    constants, measurement = calibration.constants, calibration.measurement
    parts = [
        f"# Calibration {name}",
        LEAD,
        "## Measured",
        _measured([one for one in constants if one.status == MEASURED]),
        "## Void: the file's values stay",
        _listed([one for one in constants if one.status == VOID]),
        "## Not measured: the file's values stay",
        _listed([one for one in constants if one.status == KEPT]),
        "## Readings",
        _readings(measurement.readings),
        "## Void probes",
        _voids(measurement.readings),
        "## Provenance",
        _provenance(measurement.run, measurement.readings),
    ]
    return "\n\n".join(parts) + "\n"


def summary(calibration: Calibration) -> str:
    """What a command prints at its end."""
    counts = [sum(one.status == status for one in calibration.constants) for status in (MEASURED, VOID, KEPT)]
    table = _measured([one for one in calibration.constants if one.status == MEASURED])
    return f"{table}\n\n{counts[0]} constants measured, {counts[1]} void, {counts[2]} kept"


def _measured(constants: Sequence[CalibrationConstant]) -> str:
    if not constants:
        return "None."
    rows = [
        [
            f"`{one.constant}`",
            one.unit,
            _figure(one.base),
            kind(one.base_source),
            f"{_figure(one.value)} \u00b1 {_figure(one.spread, 2)}",
            _ratio(one),
            f"{one.samples}",
            RULE_OF[one.constant].meaning,
            one.base_source,
        ]
        for one in constants
    ]
    header = ["constant", "unit", "file", "file is", "measured", "measured / file", "samples", "what was measured"]
    return markdown([*header, "file's source"], rows, frozenset({2, 4, 5, 6}))


def kind(source: str) -> str:
    """What a value is, by its source; `other` where that begins with none of the known words."""
    return next((kind for words, kind in KINDS.items() if source.startswith(words)), "other")


def _ratio(one: CalibrationConstant) -> str:
    return f"{one.value / one.base:.2f}" if one.value is not None and one.base else ABSENT


def _listed(constants: Sequence[CalibrationConstant]) -> str:
    if not constants:
        return "None."
    rows = [
        [
            f"`{one.constant}`",
            one.unit,
            _figure(one.base),
            kind(one.base_source),
            _figure(one.value),
            one.reason or ABSENT,
            one.base_source,
        ]
        for one in constants
    ]
    header = ["constant", "unit", "file", "file is", "read", "reason", "file's source"]
    return markdown(header, rows, frozenset({2, 4}))


def _readings(readings: Sequence[CalibrationReading]) -> str:
    rows = []
    for one in readings:
        if one.void is None and one.samples:
            read = Reading.of(one.samples)
            numbers = [f"{number:,}" if number else ABSENT for number in (one.ctas, one.bytes)]
            spread = f"{_figure(read.median)} \u00b1 {_figure(read.spread, 2)}"
            rows.append([one.probe, one.variant, *numbers, spread, one.unit, f"{read.samples}"])
    header = ["probe", "variant", "CTAs or warps", "bytes", "median", "unit", "samples"]
    return markdown(header, rows, frozenset({2, 3, 4, 6})) if rows else "None."


def _voids(readings: Sequence[CalibrationReading]) -> str:
    return "\n".join(f"- {one.probe}: {one.void}" for one in readings if one.void is not None) or "None."


def _provenance(run: CalibrationRun, readings: Sequence[CalibrationReading]) -> str:
    clocks = [sample for one in readings if one.probe == "sm_clock" for sample in one.samples]
    seen = f"ran at {min(clocks):,.0f} to {max(clocks):,.0f} MHz" if clocks else "ran at a clock that was not read"
    return "\n".join(
        [
            f"- command: `{run.command}`; {run.created}",
            f"- {run.gpus} x {run.device}; driver {run.driver or 'not told'}, CUDA driver {run.cuda_driver}, runtime "
            f"{run.cuda_runtime}",
            f"- SMs made for {run.most_sm_mhz:,.0f} MHz {seen}; memory {run.memory_mhz:,.0f} MHz",
            f"- probes {run.probes_hash}",
        ]
    )


def _figure(value: float | None, digits: int = 3) -> str:
    """Three significant digits, and every digit before the point."""
    if value is None:
        return ABSENT
    whole = len(f"{abs(value):.0f}")
    return f"{value:,.0f}" if whole >= digits or value == 0 else f"{value:.{digits}g}"
