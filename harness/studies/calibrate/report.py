"""The report of calibrations: measured constants beside those of the machine description, and the readings."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from afdep.machine import Constant, Machine
from harness.errors import Exit, ReportError
from harness.records.envelope import OK, VOID
from harness.report import machine_file, page
from harness.report.markdown import ABSENT, bullets, lined
from harness.report.results import Part, Results
from harness.studies.calibrate.program import Record
from harness.studies.calibrate.rules import KEPT, MEASURED, RULE_OF, Calibrated, judge, summarised

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
MEASURED_HERE = "measured by `harness calibrate`"
"""How the source of a constant begins that a calibration gave."""


def text(results: Results, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The report in Markdown, provenance last."""
    sections = [section for part in results.parts for section in _sections(part)]
    return page.assemble(f"Calibration {results.name}", [LEAD, *sections, *page.ends(results, _more(results))])


def summary(results: Results) -> str:
    """What a command prints at its end."""
    found = [one for part in results.parts for one in constants(part)]
    counts = [f"{sum(one.outcome == outcome for one in found)} {outcome}" for outcome in (MEASURED, VOID, KEPT)]
    return f"{_measured(found)}\n\n{', '.join(counts)}\n\n{page.not_ok(results)}"


def status(results: Results) -> Exit:
    """Done where a probe read something."""
    return Exit.OK if any(row.status == OK for row in results.of(Record)) else Exit.NOTHING


def products(results: Results, path: Path, conf: Path) -> list[Path]:
    """Write a new machine file with the measured constants; every other line is the base's.

    Raises:
        ReportError: records that name no base, or a base that is another by now.
        UsageError: a file is there, or it is not named as a machine file.
    """
    part = results.parts[-1]
    base = None if part.file is None else part.plan.settings.base
    if base is None or Machine.load(base.name, conf / "machine") != base:
        received = f"another {base.name}" if base else "records without a plan"
        raise ReportError(f"write: expected the base of the calibration, received {received}.", "Calibrate again.")
    run = latest(part)[0]
    where = f"{MEASURED_HERE} on {run.gpus} x {run.machine}, record {results.name}"
    changed = [_changed(one, where) for one in constants(part) if one.outcome == MEASURED]
    return [machine_file.write(conf / "machine" / f"{base.name}.yaml", path, changed)]


def _changed(one: Calibrated, where: str) -> Constant:
    """A constant as it was measured, with four digits and every digit before the point."""
    value = f"{one.value:.{max(4, len(f'{abs(one.value or 0):.0f}'))}g}"
    source = f"{where}, {one.probe}: \u00b1 {one.spread:.2g} over {one.samples} samples"
    return dataclasses.replace(one.base, value=float(value), source=source)


def latest(part: Part) -> list[Record]:
    """The readings of the last attempt."""
    rows = part.of(Record)
    return [row for row in rows if row.attempt == max(one.attempt for one in rows)]


def constants(part: Part) -> Sequence[Calibrated]:
    """What became of each constant: judged from the readings, or as records of an earlier format have it."""
    if part.file is not None:
        return judge(part.plan.settings.base, latest(part), part.plan.settings.limits)
    columns = ("probe", "outcome", "reason", "value", "spread", "samples")
    return [
        Calibrated(
            Constant(row["constant"], row["base"], row["unit"], row["base_source"]),
            **{name: row[name] for name in columns},
        )
        for row in part.reading.rows
        if row["table"] == "calibrated"
    ]


def _sections(part: Part) -> list[str]:
    found, readings = constants(part), latest(part)
    return [
        "## Measured",
        _measured(found),
        "## Void: the file's values stay",
        _listed(found, VOID),
        "## Not measured: the file's values stay",
        _listed(found, KEPT),
        "## Readings",
        lined(_reading(one) for one in readings if one.status == OK and one.samples) or "None.",
        "## Void probes",
        bullets(f"{one.probe}: {one.reason}" for one in readings if one.status != OK),
    ]


def _measured(found: Sequence[Calibrated]) -> str:
    return (
        lined(
            {
                **_of_file(one.base),
                "measured": f"{_figure(one.value)} \u00b1 {_figure(one.spread, 2)}",
                "measured / file": f"{one.value / one.base.value:.2f}"
                if one.value is not None and one.base.value
                else ABSENT,
                "samples": f"{one.samples}",
                "what was measured": RULE_OF[one.base.name].meaning,
                "file's source": one.base.source,
            }
            for one in found
            if one.outcome == MEASURED
        )
        or "None."
    )


def _listed(found: Sequence[Calibrated], outcome: str) -> str:
    return (
        lined(
            {
                **_of_file(one.base),
                "read": _figure(one.value),
                "reason": one.reason or ABSENT,
                "file's source": one.base.source,
            }
            for one in found
            if one.outcome == outcome
        )
        or "None."
    )


def _of_file(base: Constant) -> dict[str, str]:
    return {"constant": f"`{base.name}`", "unit": base.unit, "file": _figure(base.value), "file is": kind(base.source)}


def kind(source: str) -> str:
    """What a value is, by its source; `other` where that begins with none of the known words."""
    return next((kind for words, kind in KINDS.items() if source.startswith(words)), "other")


def _reading(one: Record) -> dict[str, str]:
    median, spread, samples = summarised(one.samples)
    return {
        "probe": one.probe,
        "variant": one.variant,
        "CTAs or warps": f"{one.ctas:,}" if one.ctas else ABSENT,
        "bytes": f"{one.bytes:,}" if one.bytes else ABSENT,
        "median": f"{_figure(median)} \u00b1 {_figure(spread, 2)}",
        "unit": one.unit,
        "samples": f"{samples}",
    }


def _more(results: Results) -> list[str]:
    """The machine, its clocks and the probes."""
    clocks = [sample for one in results.of(Record) if one.probe == "sm_clock" for sample in one.samples]
    seen = f"ran at {min(clocks):,.0f} to {max(clocks):,.0f} MHz" if clocks else "ran at a clock that was not read"
    return list(
        dict.fromkeys(
            line
            for run in results.rows
            if run.get("gpus")
            for line in (
                f"{run['gpus']} x {run['machine']}; driver {run['driver'] or 'not told'}, "
                f"CUDA driver {run['cuda_driver']}, runtime {run['cuda_runtime']}",
                f"SMs made for {run['most_sm_mhz']:,.0f} MHz {seen}; memory {run['memory_mhz']:,.0f} MHz",
                f"probes {run['probes_hash']}",
            )
        )
    )


def _figure(value: float | None, digits: int = 3) -> str:
    """Three significant digits, and every digit before the point."""
    if value is None:
        return ABSENT
    whole = len(f"{abs(value):.0f}") >= digits or value == 0
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"
