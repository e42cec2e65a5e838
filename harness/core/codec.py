"""Frozen dataclasses to plain JSON data and back.

A field that has its stated default is left out, so that a field which is added later changes no plan that does without
it. Reading is strict: a field too many is an error, and so is one too few unless it has a default.
"""

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from typing import Any

Fields = Mapping[Any, Mapping[str, Any]]
_NONE: Fields = {}


def encode(value: Any) -> Any:
    """Plain data of a dataclass, or of what one may hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(one, getattr(value, one.name)) for one in dataclasses.fields(value)]
        return {one.name: encode(held) for one, held in fields if one.default != held}
    if isinstance(value, Mapping):
        return {str(key): encode(held) for key, held in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # one number, however it was written
    return [encode(one) for one in value] if isinstance(value, tuple | list) else value


def decode(kind: Any, data: Any, known: Fields = _NONE) -> Any:
    """Read plain data as a dataclass with nested dataclasses, tuples, mappings and optional fields.

    Args:
        kind: what it becomes.
        data: plain data.
        known: by dataclass the types of fields that it leaves open.

    Raises:
        ValueError: another set of fields, or a value of another type.
    """
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_fields(kind, data, known)
    if origin is typing.Annotated:
        return decode(args[0], data, known)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (arg for arg in args if arg is not type(None))
        return None if data is None else decode(inner, data, known)
    if origin is tuple:
        return _decode_tuple(args, data, known)
    if origin is Mapping:
        return {str(key): decode(args[1], held, known) for key, held in dict(data).items()}
    if origin is typing.Literal and data not in args:
        raise ValueError(f"expected one of {', '.join(map(str, args))}, received {data!r}")
    if kind is float and type(data) is int:
        return float(data)
    if origin is None and kind is not Any and type(data) is not kind:
        raise ValueError(f"expected {kind.__name__}, received {data!r}")
    return data


def short_hash(letter: str, data: Any) -> str:
    """A letter and 16 hexadecimal digits of sha256 over plain data as canonical JSON."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return letter + hashlib.sha256(text.encode()).hexdigest()[:16]


def _decode_fields(kind: Any, data: Any, known: Fields) -> Any:
    hints = {**typing.get_type_hints(kind, include_extras=True), **known.get(kind, {})}
    fields = {one.name: hints[one.name] for one in dataclasses.fields(kind)}
    needed = {one.name for one in dataclasses.fields(kind) if one.default is dataclasses.MISSING}
    if not isinstance(data, dict) or not needed <= set(data) <= set(fields):
        raise ValueError(f"expected {kind.__name__} with {', '.join(fields)}, received {data!r}")
    return kind(**{name: decode(fields[name], held, known) for name, held in data.items()})


def _decode_tuple(args: tuple[Any, ...], data: Any, known: Fields) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise ValueError(f"expected a list, received {data!r}")
    kinds = [args[0]] * len(data) if args[-1] is Ellipsis else list(args)
    return tuple(decode(kind, entry, known) for kind, entry in zip(kinds, data, strict=True))
