"""What a calibration is judged by, from a composed configuration."""

from collections.abc import Mapping
from typing import Any

from afdep import Machine
from harness.config.read import read, word
from harness.core.planning import Wanted
from harness.desk.desk import Desk
from harness.errors import ConfigError, valid_names
from harness.studies.calibrate.program import Limits, Settings, probes_hash
from harness.studies.calibrate.rules import RULE_OF

SECTIONS = {"calibrate": Limits}


def wanted(config: Mapping[str, Any], desk: Desk) -> Wanted:
    """Read a configuration.

    Raises:
        ConfigError: bounds of other constants than probes give, or a lower one that is not below the upper one.
        ValueReadError: a value of no use.
        MachineError: no such machine description.
    """
    base = Machine.load(word("base", config["base"], "the name of a machine"), desk.conf / "machine")
    limits = read(Limits, config["calibrate"], "calibrate")
    for name in sorted(set(limits.bounds) ^ set(RULE_OF)) + sorted(set(RULE_OF) - set(base.constants())):
        raise ConfigError(
            f"calibrate.bounds: expected the {len(RULE_OF)} constants that probes give, received one more or less: "
            f"{name}.",
            valid_names(name, RULE_OF),
        )
    for name, one in limits.bounds.items():
        if one.lower >= one.upper:
            raise ConfigError(
                f"calibrate.bounds.{name}: expected lower below upper, received {one.lower:g} and {one.upper:g}.",
                "Swap them.",
            )
    return Wanted("calibrate", "calibrate", Settings(base, limits, probes_hash()))
