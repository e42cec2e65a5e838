"""A new machine file with the fitted values; every other constant, and the file that was fitted, stay as they are."""

import dataclasses
from pathlib import Path

from afdep import Machine
from afdep.machine import Constant
from harness.fit.settings import FitSettings
from harness.machine_files import line
from harness.records.fits import Fit
from harness.tables import row_label

_DIGITS = 4


def write(settings: FitSettings, fit: Fit) -> Path:
    """Write the machine to `settings.write`, and read it back.

    Raises:
        FileExistsError: a file is there.
    """
    path = settings.write
    assert path is not None
    found = {one.name: one.refitted for one in fit.constants if one.refitted is not None}
    table = [_refitted(one, found[one.name], settings) if one.name in found else one for one in _table(settings)]
    head = f"# {settings.bench.machine.name}, its {len(found)} fitted constants as `{fit.run.command}` found them."
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as stream:
        stream.write("\n".join([head, *map(line, table)]) + "\n")
    Machine.load(path.stem, path.parent)
    return path


def _table(settings: FitSettings) -> tuple[Constant, ...]:
    return settings.bench.machine.table


def _refitted(one: Constant, value: float, settings: FitSettings) -> Constant:
    rows = [row_label(settings.screen.rows[index]) for index in settings.fitted_rows]
    cells = len(rows) * len(settings.screen.tokens)
    source = (
        f"fitted on the published {'; '.join(rows)} ({2 * cells} absolutes, {cells} paired changes) of "
        f"{settings.table.table_id} by the verb fit, from {one.value:g}"
    )
    return dataclasses.replace(one, value=float(f"{value:.{_DIGITS}g}"), source=source)
