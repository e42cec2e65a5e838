"""Machine descriptions: the cost constants of the simulator, each with its unit and its source."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from afdep.errors import MachineError, choices
from afdep.tree import root

_FIELDS = ("value", "unit", "source")


@dataclass(frozen=True)
class Constant:
    """One cost constant.

    Args:
        name: the constant, with its unit as suffix (`nvlink_latency_ns`).
        value: a finite number.
        unit: its unit in words.
        source: where the number comes from.
    """

    name: str
    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Machine:
    """A machine by name, with its constants in the order of its file."""

    name: str
    table: tuple[Constant, ...]

    @classmethod
    def load(cls, name: str, folder: Path | None = None) -> "Machine":
        """Read `folder/NAME.yaml`: a mapping from constant to {value, unit, source}.

        Args:
            name: the machine's.
            folder: by default `conf/machine` of the tree.

        Raises:
            MachineError: no such machine (valid names listed), not YAML, or a constant that is not such a mapping.
        """
        import yaml  # a node that only runs device ranks reads no machine file, and has no YAML

        folder = folder or root() / "conf" / "machine"
        known = sorted(path.stem for path in folder.glob("*.yaml"))
        if name not in known:
            raise MachineError(f"machine: expected a known name, received {name!r}.", choices(name, known))
        path = folder / f"{name}.yaml"
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise MachineError(f"{path.name}: expected YAML, received {str(error).splitlines()[0]}.", _HOW) from error
        return cls(name, _table(path.name, content))

    def constants(self) -> dict[str, float]:
        """Name to value."""
        return {constant.name: constant.value for constant in self.table}

    def require(self, names: Iterable[str]) -> None:
        """Check that exactly these constants are there.

        Raises:
            MachineError: listing the missing and the unknown ones.
        """
        expected, present = set(names), set(self.constants())
        missing, unknown = sorted(expected - present), sorted(present - expected)
        if missing or unknown:
            raise MachineError(
                f"machine {self.name}: expected the {len(expected)} constants of the cost model, "
                f"received missing {_listed(missing)} and unknown {_listed(unknown)}.",
                f"Correct {self.name}.yaml; a constant has no default.",
            )


_HOW = "Write each constant as NAME: {value: NUMBER, unit: TEXT, source: TEXT}."


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _table(file: str, content: object) -> tuple[Constant, ...]:
    if not isinstance(content, Mapping) or not content:
        raise MachineError(f"{file}: expected a mapping of constants, received {type(content).__name__}.", _HOW)
    return tuple(_constant(file, name, fields) for name, fields in content.items())


def _constant(file: str, name: object, fields: object) -> Constant:
    if not isinstance(name, str) or not isinstance(fields, Mapping):
        raise MachineError(f"{file}: expected {name!r} with {', '.join(_FIELDS)}, received {fields!r}.", _HOW)
    missing = [field for field in _FIELDS if field not in fields]
    unknown = [str(field) for field in fields if field not in _FIELDS]
    if missing or unknown:
        raise MachineError(
            f"{file}: {name}: expected {', '.join(_FIELDS)}, "
            f"received missing {_listed(missing)} and unknown {_listed(unknown)}.",
            _HOW,
        )
    texts = [_text(file, name, field, fields[field]) for field in ("unit", "source")]
    return Constant(name, _number(file, name, fields["value"]), *texts)


def _number(file: str, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        read = f"the {type(value).__name__} {value!r}"
        raise MachineError(f"{file}: {name}.value: expected a finite number, received {read}.", _HOW)
    return float(value)


def _text(file: str, name: str, field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        read = f"the {type(value).__name__} {value!r}"
        raise MachineError(f"{file}: {name}.{field}: expected words, received {read}.", _HOW)
    return value
