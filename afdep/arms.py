"""Arms: a protocol and its switches under one canonical name.

The grammar is `NAME` or `NAME[CONTROL=V,CONTROL=V]`, where NAME is a row of PRESETS.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from afdep import controls
from afdep.controls import Switches
from afdep.errors import ArmError, choices

Protocol = Literal["m2n", "afdep"]

_GRAMMAR = re.compile(r"(?P<base>[a-z0-9@-]+)(\[(?P<switches>[^\[\]]*)\])?")


@dataclass(frozen=True)
class Preset:
    """What a bare arm name stands for.

    Args:
        protocol: the kernels it runs.
        switches: the controls it sets.
        frozen: True where the name stands for one published table; its figures never move with the defaults.
    """

    protocol: Protocol
    switches: Switches
    frozen: bool


PRESETS: dict[str, Preset] = {
    "m2n": Preset("m2n", (), frozen=False),
    "afdep": Preset("afdep", (), frozen=False),
    # The main table: bulk protocol, union prefix in the FFN reduction, shared kernels, collect by copy.
    "afdep@bd4db4da": Preset("afdep", (("AFDEP_UNION_REDUCE_PREFIX", 1),), frozen=True),
}


@dataclass(frozen=True)
class Arm:
    """A protocol configuration; `Arm.parse` makes one.

    Args:
        name: the canonical name, which `Arm.parse` reads back to an equal Arm.
        protocol: "m2n" or "afdep".
        switches: controls that differ from their default, in table order.
    """

    name: str
    protocol: Protocol
    switches: Switches

    @classmethod
    def parse(cls, text: object) -> "Arm":
        """Read an arm's name, as `m2n`, `afdep@bd4db4da` or `afdep[AFDEP_UNION_NOTIFY=1]`.

        A switch that repeats what the bare name means is dropped, so equal configurations have one name.

        Raises:
            ArmError: not text, not of this grammar, an unknown name, or switches on `m2n`.
            ControlError: an unknown control or a value other than 0 or 1.
        """
        if not isinstance(text, str):
            raise ArmError(f"arm: expected text, received the {type(text).__name__} {text!r}.", choices(text, _valid()))
        match = _GRAMMAR.fullmatch(text)
        if match is None or match["base"] not in PRESETS:
            raise ArmError(f"arm: expected one built here, received {text!r}.", choices(text, _valid()))
        return cls._with_overrides(match["base"], _parse_switches(text, match["switches"]))

    @classmethod
    def _with_overrides(cls, base: str, overrides: Switches) -> "Arm":
        preset = PRESETS[base]
        if overrides and preset.protocol == "m2n":
            raise ArmError(
                f"arm m2n: expected no switches, received {', '.join(name for name, _ in overrides)}.",
                "Controls switch changes of afdep off; the symmetric baseline has none of them.",
            )
        meant = dict(preset.switches)
        defaults = {control.name: control.default for control in controls.CONTROLS}
        changed = [(name, value) for name, value in overrides if value != meant.get(name, defaults[name])]
        suffix = f"[{','.join(f'{name}={value}' for name, value in changed)}]" if changed else ""
        return cls(base + suffix, preset.protocol, controls.canonical((meant | dict(changed)).items()))

    @classmethod
    def of_environ(cls, environ: Mapping[str, str]) -> "Arm":
        """`afdep` with the controls that a process environment sets.

        Raises:
            ControlError: an unknown AFDEP_ variable, or a value other than "0" or "1".
        """
        switches = controls.from_environ(environ)
        return cls.parse(f"afdep[{','.join(f'{name}={value}' for name, value in switches)}]" if switches else "afdep")

    def __str__(self) -> str:
        return self.name


def _valid() -> tuple[str, ...]:
    return (*PRESETS, "afdep[CONTROL=1]")


def _parse_switches(arm: str, text: str | None) -> Switches:
    """The overrides in table order, values at their default included."""
    if text is None:
        return ()
    values: dict[str, int] = {}
    for item in text.split(","):
        name, _, value_text = item.partition("=")
        name, value = controls.parse_value(name, value_text)
        if name in values:
            raise ArmError(f"arm {arm}: expected each control once, received {name} twice.", "Keep one of the two.")
        values[name] = value
    return tuple((name, values[name]) for name in controls.NAMES if name in values)
