"""What a calibration runs with: frozen, validated once at the edge."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afdep import Machine
from harness.calibrate.judging import RULE_OF, Limits
from harness.errors import ConfigError, UsageError, valid_names
from harness.machine_files import new_machine_file
from harness.words import as_kept_name, as_number, as_word
from harness.workspace import kept_path

DEVICE = "device"


@dataclass(frozen=True)
class CalibrationSettings:
    """A validated calibration.

    Args:
        machine: the base, whose constants stay where nothing measures them.
        limits: what a measured constant must keep.
        source: a folder with readings, or None: measure this machine.
        keep: name of the kept record, or None.
        write: path of the machine file to be written, or None.
    """

    machine: Machine
    limits: Limits
    source: Path | None
    keep: str | None
    write: Path | None


def calibration_settings(config: Mapping[str, Any], repository: Path) -> CalibrationSettings:
    """Read a composed configuration.

    Raises:
        ConfigError, ValueReadError, UsageError: a value of no use.
        MachineError: no such machine file.
    """
    told = config["calibrate"]
    machine = Machine.load(as_word("base", config["base"], "the name of a machine"), repository / "conf/machine")
    return CalibrationSettings(
        machine=machine,
        limits=Limits(
            bounds=_bounds(told["bounds"], machine),
            most_spread_pct=as_number("calibrate.most_spread_pct", told["most_spread_pct"]),
            least_spread_ns=as_number("calibrate.least_spread_ns", told["least_spread_ns"]),
        ),
        source=_source(as_word("source", config["source"], "device or a folder"), repository),
        keep=_keep(as_kept_name(config["keep"], "h200"), repository),
        write=new_machine_file(config["write"], repository),
    )


def _bounds(bounds: Mapping[str, Any], machine: Machine) -> dict[str, tuple[float, float]]:
    """Bounds of exactly the constants that a rule gives, each of them one of the machine's."""
    names = machine.constants()
    for name in sorted(set(bounds) ^ set(RULE_OF)) + sorted(set(RULE_OF) - set(names)):
        raise ConfigError(
            f"calibrate.bounds: expected the {len(RULE_OF)} constants that probes give, received one more or less: "
            f"{name}.",
            valid_names(name, RULE_OF),
        )
    return {name: _pair(name, one) for name, one in bounds.items()}


def _pair(name: str, one: object) -> tuple[float, float]:
    if not isinstance(one, Mapping) or set(one) != {"lower", "upper"}:
        raise ConfigError(f"calibrate.bounds.{name}: expected lower and upper, received {one!r}.", "Give both.")
    lower, upper = (as_number(f"calibrate.bounds.{name}.{side}", one[side]) for side in ("lower", "upper"))
    if lower >= upper:
        received = f"{lower:g} and {upper:g}"
        raise ConfigError(f"calibrate.bounds.{name}: expected lower below upper, received {received}.", "Swap them.")
    return lower, upper


def _source(word: str, repository: Path) -> Path | None:
    folder = (repository / word).resolve()
    if word == DEVICE:
        return None
    if not (folder / "readings.parquet").is_file():
        raise UsageError(
            f"source: expected a folder with readings, received {word!r}.", "Give what `./calibrate` left, or device."
        )
    return folder


def _keep(name: str | None, repository: Path) -> str | None:
    kept_path("calibrations", name, repository, suffix="")  # refuses a name that is taken before anything is measured
    return name
