"""A new machine file with the fitted values; every other constant, and the file that was fitted, stay as they are."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

from afdep import Machine
from afdep.machine import Constant
from harness.errors import ConfigError
from harness.fit.settings import FitSettings
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


def write_over(base: Path, path: Path, changed: Iterable[Constant]) -> Path:
    """Write a machine file with some constants in place of the base's, its other lines unchanged, and read it back.

    Args:
        base: a machine file with a line for each constant.
        path: of the new file.
        changed: constants of the base.

    Raises:
        ConfigError: a constant that has no line of its own in the base.
        FileExistsError: a file is there.
    """
    lines = base.read_text(encoding="utf-8").splitlines()
    for one in changed:
        places = [index for index, text in enumerate(lines) if text.startswith(f"{one.name}: {{")]
        if len(places) != 1:
            raise ConfigError(
                f"{base.name}: expected one line {one.name}: {{...}}, received {len(places)}.",
                "Write each constant on a line of its own.",
            )
        lines[places[0]] = line(one)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")
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


def line(one: Constant) -> str:
    """A constant as a machine file has it."""
    return f"{one.name}: {{value: {one.value!r}, unit: {json.dumps(one.unit)}, source: {json.dumps(one.source)}}}"
