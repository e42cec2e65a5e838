"""Machine files of what was fitted or measured: new ones only, with every other line as the base has it."""

import json
from collections.abc import Iterable
from pathlib import Path

from afdep import Machine
from afdep.machine import Constant
from harness.errors import ConfigError, UsageError


def write(base: Path, path: Path, changed: Iterable[Constant]) -> Path:
    """Write a machine file with some constants in place of the base's, its other lines unchanged, and read it back.

    Args:
        base: a machine file with a line for each constant.
        path: of the new file.
        changed: constants of the base.

    Raises:
        ConfigError: a constant that has no line of its own in the base.
        UsageError: a file is there, or it is not named as a machine file.
    """
    if path.exists() or path.suffix != ".yaml":
        raise UsageError(
            f"write: expected the path of a new .yaml file, received {path.name!r}.",
            "Machine files stay: choose another.",
        )
    lines = base.read_text(encoding="utf-8").splitlines()
    for one in changed:
        places = [index for index, text in enumerate(lines) if text.startswith(f"{one.name}: {{")]
        if len(places) != 1:
            raise ConfigError(
                f"{base.name}: expected one line {one.name}: {{...}}, received {len(places)}.",
                "Write each constant on a line of its own.",
            )
        said = f"value: {one.value!r}, unit: {json.dumps(one.unit)}, source: {json.dumps(one.source)}"
        lines[places[0]] = f"{one.name}: {{{said}}}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")
    Machine.load(path.stem, path.parent)
    return path
