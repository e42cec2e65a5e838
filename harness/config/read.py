"""From composed configuration to a study's settings: every value is read strictly, once, by what its field says.

YAML makes `off` false, `4:4` the integer 244 and `12e45678` infinity. A value is therefore accepted only if it arrived
with the type its field takes, and a text only if YAML would read the bare text as the same text.
"""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import yaml

from harness.core.fields import Repeats, Text, Within
from harness.errors import ConfigError, ValueReadError, valid_names

T = TypeVar("T")
NONE = "none"


def read(kind: type[T], data: Any, name: str = "") -> T:
    """Read plain data as a dataclass.

    Args:
        kind: the dataclass; its fields may be numbers, texts, flags, tuples, mappings, dataclasses, or one of these or
            none, each with what `harness.core.fields` says of it.
        data: as `compose` returns it.
        name: the key that leads to it, for messages.

    Raises:
        ConfigError: no section, or one with a key too many or too few.
        ValueReadError: a value of another type or out of bounds.
        HarnessError, AfdepError: a text that its field's function refuses.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {one.name: hints[one.name] for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    data = _section(name, data, fields)
    needed = {one.name for one in dataclasses.fields(kind) if one.default is dataclasses.MISSING}  # type: ignore[arg-type]
    for key in (*sorted(set(data) - set(fields)), *sorted(needed - set(data))):
        received = f"the unknown key {key}" if key in data else f"no key {key}"
        raise ConfigError(f"{name or kind.__name__}: received {received}.", valid_names(key, fields))
    prefix = f"{name}." if name else ""
    return kind(**{key: value(fields[key], held, f"{prefix}{key}") for key, held in data.items()})


def value(kind: Any, data: Any, name: str) -> Any:
    """Read one value by the annotation of its field."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _checked(args[0], args[1:], data, name)
    if origin in (types.UnionType, typing.Union):
        if data is None or data == NONE:
            return None
        return value(next(one for one in args if one is not type(None)), data, name)
    if origin is typing.Literal:
        return one_of(name, data, args)
    if origin is tuple:
        held = distinct(name, [data] if isinstance(data, str) else data)
        return tuple(distinct(name, [value(args[0], one, name) for one in held]))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return read(kind, data, name)
    if origin is not None:  # a mapping
        return {str(key): value(args[1], held, f"{name}.{key}") for key, held in _section(name, data).items()}
    return word(name, data) if kind is str else _plain(kind, name, data)


def _checked(kind: Any, more: tuple[Any, ...], data: Any, name: str) -> Any:
    for one in more:
        if isinstance(one, Text):
            text = word(name, data, one.words)
            try:
                return one.read(text)
            except ValueReadError as error:  # of any name: the key says of which
                raise ValueReadError(f"{name}{error.problem.removeprefix('name')}", error.next_step) from error
        if isinstance(one, Repeats):
            return tuple(value(typing.get_args(kind)[0], entry, name) for entry in listed(name, data))
    found = value(kind, data, name)
    size, unit = (len(found), " entries") if isinstance(found, tuple) else (found, "")
    for one in more:
        if isinstance(one, Within) and not one.least <= size <= one.most:
            raise ValueReadError(f"{name}: expected {one}{unit}, received {size!r}.", f"Write {name} in these bounds.")
    return found


def word(name: str, data: object, expected: str = "a text") -> str:
    """A text that stays a text in YAML.

    Raises:
        ValueReadError: YAML read, or would read, something else; the message shows what.
    """
    seen = data
    if isinstance(data, str):
        try:
            seen = yaml.safe_load(data) if data else data
        except yaml.YAMLError:
            return data
        if isinstance(seen, str):
            return data
    kind = "null" if seen is None else f"the {type(seen).__name__} {seen}"
    raise ValueReadError(
        f"{name}: expected {expected}, received a text that YAML reads as {kind}.",
        f"Give {name} a text that stays a text: {expected}.",
    )


def one_of(name: str, data: object, valid: tuple[Any, ...]) -> Any:
    """One of a fixed set of words.

    Raises:
        ValueReadError: not one of them; the message lists them.
    """
    if data not in valid or isinstance(data, bool):
        raise ValueReadError(f"{name}: expected one it knows, received {data!r}.", valid_names(data, valid))
    return data


def distinct(name: str, data: object) -> list[Any]:
    """A list that repeats no entry; it may be empty.

    Raises:
        ValueReadError: no list, or one with an entry twice.
    """
    entries = listed(name, data)
    repeated = [one for index, one in enumerate(entries) if one in entries[:index]]
    if repeated:
        raise ValueReadError(f"{name}: expected each entry once, received {repeated[0]!r} twice.", "Drop one of them.")
    return entries


def listed(name: str, data: object) -> list[Any]:
    """A list.

    Raises:
        ValueReadError: anything else.
    """
    if not isinstance(data, list):
        raise ValueReadError(f"{name}: expected a list, received {data!r}.", f"Write {name}=[first,second].")
    return data


def _section(name: str, data: object, keys: Iterable[str] = ()) -> Mapping[Any, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"{name}: expected a section, received {data!r}.",
            f"Give {name} {', '.join(keys) or 'a key on each line'}.",
        )
    return data


def _plain(kind: Any, name: str, data: object) -> Any:
    """A number or a flag, of its own type alone: neither true nor NaN is a number."""
    accepted, expected, written = _PLAIN[kind]
    if not isinstance(data, accepted) or (isinstance(data, bool) and kind is not bool) or data != data:
        raise ValueReadError(f"{name}: expected {expected}, received {data!r}.", f"Write {name} as {written}.")
    return kind(data)


_PLAIN: Mapping[Any, tuple[Any, str, str]] = {
    int: (int, "an integer", "a decimal integer"),
    float: (int | float, "a number", "a plain number"),
    bool: (bool, "true or false", "true or false"),
}
