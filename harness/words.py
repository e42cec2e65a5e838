"""Strict readings of single values: a word that YAML takes for something else is refused wherever it came from.

YAML makes `off` false, `4:4` the integer 244 and `12e45678` infinity. A value is therefore accepted only if it arrived
with the type its key takes, and a text only if YAML would read the bare text as the same text.
"""

import re
from collections.abc import Iterable

import yaml

from afdep.digest import NativeDigest
from harness.errors import ValueReadError, valid_names


def as_word(name: str, value: object, expected: str) -> str:
    """A text that stays a text in YAML.

    Args:
        name: the key, for the message.
        value: what composition delivered.
        expected: what the key takes, for the message.

    Raises:
        ValueReadError: YAML read, or would read, something else; the message shows what.
    """
    if not isinstance(value, str):
        raise _read_as(name, value, expected)
    seen = _seen_by_yaml(value)
    if not isinstance(seen, str):
        raise _read_as(name, seen, expected)
    return value


def as_name(name: str, value: object) -> str:
    """A word that may become a part of a file name: small letters, digits and dashes.

    Raises:
        ValueReadError: anything else.
    """
    word = as_word(name, value, "a name of small letters, digits and dashes")
    if not re.fullmatch(r"[a-z0-9-]+", word):
        raise ValueReadError(
            f"{name}: expected small letters, digits and dashes, received {word!r}.",
            "It becomes a part of file names: write it as decode-h200 or the like.",
        )
    return word


def as_word_or_none(name: str, value: object, expected: str) -> str | None:
    """As `as_word`, with None for the word none."""
    word = as_word(name, value, expected)
    return None if word == "none" else word


def as_kept_name(value: object, example: str) -> str | None:
    """The value of `keep`: the name that a record is kept under, or None for the word none.

    Args:
        value: what composition delivered.
        example: a name, for the message.

    Raises:
        ValueReadError: no word, or one that names no file of its own.
    """
    word = as_word_or_none("keep", value, "a name or none")
    if word is not None and not re.fullmatch(r"[a-z][a-z0-9-]{0,63}", word):
        raise ValueReadError(
            f"keep: expected a name of small letters, digits and dashes, received {word!r}.", f"Write keep={example}."
        )
    return word


def _read_as(name: str, value: object, expected: str) -> ValueReadError:
    kind = "null" if value is None else f"the {type(value).__name__} {value}"
    return ValueReadError(
        f"{name}: expected {expected}, received a text that YAML reads as {kind}.",
        f"Give {name} a text that stays a text: {expected}.",
    )


def _seen_by_yaml(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def as_choice(name: str, value: object, valid: Iterable[str]) -> str:
    """One of a fixed set of words.

    Raises:
        ValueReadError: not a word, or not one of the set, which the message lists.
    """
    names = tuple(valid)
    word = as_word(name, value, f"one of {', '.join(names)}")
    if word not in names:
        raise ValueReadError(f"{name}: expected one it knows, received {word!r}.", valid_names(word, names))
    return word


def as_digest(value: object) -> str:
    """A native digest as printed everywhere, as n0123abcd; bare hexadecimal digits are a number to YAML and shells.

    Raises:
        DigestError: anything else.
    """
    return str(NativeDigest.parse(value))


def as_count(name: str, value: object, *, minimum: int) -> int:
    """An integer of at least `minimum`; true and false are no integers here.

    Raises:
        ValueReadError: another type or a smaller number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        kind = "null" if value is None else f"the {type(value).__name__} {value!r}"
        raise ValueReadError(
            f"{name}: expected an integer of at least {minimum}, received {kind}.",
            f"Write {name} as a plain decimal integer.",
        )
    return value


def as_number(name: str, value: object) -> float:
    """A number of at least 0; true and false are none.

    Raises:
        ValueReadError: anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueReadError(f"{name}: expected a number of at least 0, received {value!r}.", "Write a plain number.")
    return float(value)


def as_flag(name: str, value: object) -> bool:
    """True or false.

    Raises:
        ValueReadError: anything else.
    """
    if not isinstance(value, bool):
        raise ValueReadError(f"{name}: expected true or false, received {value!r}.", "Write true or false.")
    return value


def as_list(name: str, value: object) -> list[object]:
    """A list with at least one entry.

    Raises:
        ValueReadError: no list, or an empty one.
    """
    if not isinstance(value, list) or not value:
        raise ValueReadError(f"{name}: expected a list, received {value!r}.", f"Write {name}=[first,second].")
    return value


def as_distinct(name: str, value: object) -> list[object]:
    """A list that repeats no entry.

    Raises:
        ValueReadError: no list, an empty one, or one with an entry twice.
    """
    entries = as_list(name, value)
    repeated = [entry for index, entry in enumerate(entries) if entry in entries[:index]]
    if repeated:
        raise ValueReadError(f"{name}: expected each entry once, received {repeated[0]!r} twice.", "Drop one of them.")
    return entries


def refuse_repeats(name: str, spellings: Iterable[object], canonical: Iterable[object], next_step: str) -> None:
    """Refuse entries that are one thing, in one spelling or in two.

    Args:
        name: the key, for the message.
        spellings: the entries as written.
        canonical: what each of them means, in the same order.
        next_step: what to do about a repeat.

    Raises:
        ValueReadError: two entries mean the same; the message has both spellings.
    """
    first: list[tuple[object, object]] = []
    for spelling, meaning in zip(spellings, canonical, strict=True):
        for other, known in first:
            if meaning == known:
                raise ValueReadError(
                    f"{name}: expected each entry once, received {other} and {spelling}, both {meaning}.", next_step
                )
        first.append((spelling, meaning))
