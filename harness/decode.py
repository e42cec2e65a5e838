"""Frozen dataclasses from plain JSON data and back, strictly: a field too many is an error, and so is one too few
unless it has a default.
"""

import dataclasses
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


def decode(kind: type[T], data: Any) -> T:
    """Read plain data as a dataclass with nested dataclasses, tuples and optional fields.

    Raises:
        ValueError: another set of fields, or a value of another type.
    """
    value: T = _decode(kind, data)
    return value


def _decode(kind: Any, data: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        return _decode_fields(kind, data)
    if isinstance(kind, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(kind) if arg is not type(None))
        return None if data is None else _decode(inner, data)
    if typing.get_origin(kind) is tuple:
        return _decode_tuple(typing.get_args(kind), data)
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise ValueError(f"expected {kind.__name__}, received {data!r}")
    return data


def _decode_fields(kind: Any, data: Any) -> Any:
    fields = {field.name: field.type for field in dataclasses.fields(kind)}
    needed = {field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING}
    if not isinstance(data, dict) or not needed <= set(data) <= set(fields):
        raise ValueError(f"expected {kind.__name__} with {', '.join(fields)}, received {data!r}")
    return kind(**{name: _decode(fields[name], value) for name, value in data.items()})


def _decode_tuple(args: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise ValueError(f"expected a list, received {data!r}")
    kinds = [args[0]] * len(data) if args[-1] is Ellipsis else list(args)
    return tuple(_decode(kind, entry) for kind, entry in zip(kinds, data, strict=True))
