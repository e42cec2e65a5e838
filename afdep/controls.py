"""The controls: each switches one change of the `afdep` protocol off. The one table of them.

A wire control changes what peers see, so every rank of a group must have the same value; a launch control only
changes how a rank runs its own kernels.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from afdep.errors import ControlError, choices

Switches = tuple[tuple[str, int], ...]
"""Controls that differ from their default, as (name, value), in the order of CONTROLS."""

PREFIX = "AFDEP_"


@dataclass(frozen=True)
class Control:
    """One control.

    Args:
        name: the environment variable.
        bit: its position in the word handed to the native library.
        default: the value without the variable.
        scope: "wire" where all ranks must agree, "launch" where each may differ.
        doc: what value 1 does.
    """

    name: str
    bit: int
    default: int
    scope: Literal["wire", "launch"]
    doc: str


CONTROLS: tuple[Control, ...] = (
    Control("AFDEP_KEEP_ENTRY_BARRIERS", 0, 0, "wire", "dispatch and combine open with the all-rank barrier"),
    Control("AFDEP_UNION_NOTIFY", 1, 0, "wire", "every rank sends its counts to, and awaits those of, every rank"),
    Control("AFDEP_ALL_RANK_EXIT", 2, 0, "wire", "dispatch and combine end with the all-rank barrier"),
    Control("AFDEP_GRID_SYNC_EXIT", 3, 0, "wire", "a sender releases one arrival after a grid sync, not one a CTA"),
    Control("AFDEP_UNION_BUFFERS", 4, 0, "wire", "the window has dispatch and combine regions for every rank"),
    Control("AFDEP_UNION_REDUCE_PREFIX", 5, 0, "launch", "the FFN reduction is branch-free for ceil(K/R) rows only"),
)

NAMES: tuple[str, ...] = tuple(control.name for control in CONTROLS)
_BY_NAME = {control.name: control for control in CONTROLS}


def canonical(switches: Iterable[tuple[str, int]]) -> Switches:
    """The same configuration as Switches: defaults left out, in table order.

    Raises:
        ControlError: an unknown name or a value other than 0 or 1.
    """
    values: dict[str, int] = {}
    for name, value in switches:
        _check_name(name)
        values[name] = _check_value(name, value)
    return tuple((c.name, values[c.name]) for c in CONTROLS if values.get(c.name, c.default) != c.default)


def parse_value(name: str, text: str) -> tuple[str, int]:
    """One switch from its text.

    Raises:
        ControlError: an unknown name, or text other than "0" or "1".
    """
    _check_name(name)
    if text not in ("0", "1"):
        raise _value_error(name, text)
    return name, int(text)


def from_environ(environ: Mapping[str, str]) -> Switches:
    """The switches that a process environment sets.

    Args:
        environ: the environment; variables without the prefix AFDEP_ are ignored.

    Raises:
        ControlError: an unknown AFDEP_ variable, or a value other than "0" or "1".
    """
    return canonical(parse_value(name, text) for name, text in sorted(environ.items()) if name.startswith(PREFIX))


def bits(switches: Switches) -> int:
    """Switches as the word the native library takes: bit `Control.bit` holds the value."""
    values = dict(switches)
    return sum(values.get(control.name, control.default) << control.bit for control in CONTROLS)


def from_bits(word: int) -> Switches:
    """The switches of a native control word, the inverse of `bits`.

    Raises:
        ControlError: a bit that no control has.
    """
    if word < 0 or word >> len(CONTROLS):
        raise ControlError(
            f"control word: expected bits 0..{len(CONTROLS) - 1}, received {word:#x}.",
            f"The native library and this table are of different trees. Valid: {', '.join(NAMES)}.",
        )
    return canonical((control.name, word >> control.bit & 1) for control in CONTROLS)


def _check_name(name: str) -> None:
    if name not in _BY_NAME:
        raise ControlError(f"control: expected a known name, received {name!r}.", choices(name, NAMES))


def _check_value(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in (0, 1):
        raise _value_error(name, value)
    return value


def _value_error(name: str, value: object) -> ControlError:
    return ControlError(f"{name}: expected 0 or 1, received {value!r}.", f"At 1: {_BY_NAME[name].doc}. Unset is 0.")
