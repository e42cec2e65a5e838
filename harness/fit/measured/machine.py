"""A new machine file with the constants that a fit to measured round trips found."""

import dataclasses
from pathlib import Path

from afdep.machine import Constant
from harness.fit.measured.settings import MeasuredSettings
from harness.machine_files import write_over
from harness.records.measured_fits import MeasuredFit

_DIGITS = 4


def write_machine(settings: MeasuredSettings, fit: MeasuredFit, record: str, repository: Path) -> Path:
    """Write the machine to `settings.write`: the fitted file with other values and sources for what was fitted.

    Args:
        settings: of the fit.
        fit: the fit.
        record: its name, for the sources.
        repository: where the fitted machine's file is.

    Raises:
        FileExistsError: a file is there.
    """
    assert settings.write is not None
    found = {one.name: one.refitted for one in fit.constants if one.refitted is not None}
    base = repository / "conf" / "machine" / f"{settings.machine.name}.yaml"
    changed = [_refitted(one, found[one.name], settings, record) for one in settings.machine.table if one.name in found]
    return write_over(base, settings.write, changed)


def _refitted(one: Constant, value: float, settings: MeasuredSettings, record: str) -> Constant:
    rows = "; ".join(dict.fromkeys(place.series.label for place in settings.fitted))
    source = (
        f"fitted on the measured {settings.arms[0]} of {rows} ({len(settings.fitted)} round trips) by the verb fit, "
        f"record {record}, from {one.value:g}"
    )
    return dataclasses.replace(one, value=float(f"{value:.{_DIGITS}g}"), source=source)
