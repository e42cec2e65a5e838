"""What a key means, its unit and its valid values: read from the docstring and the annotations of its settings, or from
the comment behind it in conf/.
"""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.fields import Text, Unit, Within

_ARGUMENT = re.compile(r"^    (?P<names>[a-z_0-9]+(?:, [a-z_0-9]+)*): (?P<text>.*)$")
_COMMENT = re.compile(r"^\s*(?P<key>[a-z_0-9]+):[^#]*(?:#\s*(?P<text>.*))?$")


@dataclass(frozen=True)
class Doc:
    """One key.

    Args:
        meaning: in words.
        valid: values or bounds in words, with the unit; empty where any text is valid.
    """

    meaning: str
    valid: str = ""


def arguments(kind: type[Any]) -> dict[str, str]:
    """What a dataclass's docstrings say of its fields, those of its bases included."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        names: list[str] = []
        for line in inspect.cleandoc(one.__dict__.get("__doc__") or "").splitlines():
            if (match := _ARGUMENT.match(line)) is not None:
                names = match["names"].split(", ")
                found.update(dict.fromkeys(names, match["text"]))
            elif names and line.startswith("        "):
                found.update({name: f"{found[name]} {line.strip()}" for name in names})
            else:
                names = []
    return found


def of_fields(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, Doc]]:
    """Every key of a dataclass and of those within it."""
    said, hints = arguments(kind), typing.get_type_hints(kind, include_extras=True)
    for one in dataclasses.fields(kind):
        inner = _without_none(hints[one.name])
        if isinstance(inner, type) and dataclasses.is_dataclass(inner):
            yield from of_fields(inner, f"{prefix}{one.name}.")
        else:
            yield f"{prefix}{one.name}", Doc(said.get(one.name, ""), valid(hints[one.name]))


def of_comments(path: Path) -> dict[str, str]:
    """What the comments of a configuration file say of its keys, from the line of the key or the one above."""
    found, above = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            above = line.lstrip("# ")
        elif (match := _COMMENT.match(line)) is not None:
            found[match["key"]] = match["text"] or above
            above = ""
    return found


def valid(annotation: Any) -> str:
    """The valid values of an annotation in words."""
    inner = _without_none(annotation)
    none = " or none" if inner is not annotation else ""
    if typing.get_origin(inner) is tuple:
        return f"a list: {valid(typing.get_args(inner)[0]) or 'of texts'}{none}"
    if typing.get_origin(inner) is typing.Literal:
        return f"{', '.join(map(str, typing.get_args(inner)))}{none}"
    if typing.get_origin(inner) is not typing.Annotated:
        return {int: "an integer", float: "a number", bool: "true or false", str: "a text"}.get(inner, "") + none
    kind, *more = typing.get_args(inner)
    words = [one.words for one in more if isinstance(one, Text)]
    words += [str(one) for one in more if isinstance(one, Within)]
    unit = "".join(f", in {one.name}" for one in more if isinstance(one, Unit))
    return f"{' '.join(words) or valid(kind)}{unit}{none}"


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return next(one for one in typing.get_args(annotation) if one is not type(None))
    return annotation


def flat(config: Mapping[str, Any], prefix: str = "", whole: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """Every key of a composed configuration with its value; lists of sections, and keys in `whole`, are one value."""
    for key, held in config.items():
        if isinstance(held, Mapping) and held and f"{prefix}{key}" not in whole:
            yield from flat(held, f"{prefix}{key}.", whole)
        else:
            yield f"{prefix}{key}", held
