"""What a user may write after the name: `key=value`, checked and brought into the form that Hydra takes.

An axis of the sweep takes the name of an option (`tokens=paper`) or its values (`tokens=[1,8]`, `layout=2A2F`).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from harness.config.docs import flat
from harness.errors import UsageError, valid_names

AXES = ("layout", "hidden", "dtype", "routing", "tokens", "arm")
NUMBER_AXES = ("hidden", "tokens")


def options(conf_dir: Path, group: str) -> tuple[str, ...]:
    """The option names of a configuration group; empty where there is no such group."""
    return tuple(sorted(path.stem for path in (conf_dir / group).glob("*.yaml")))


def translate(texts: Sequence[str], conf_dir: Path, axes: Sequence[str]) -> list[str]:
    """The overrides as Hydra takes them.

    Args:
        texts: the words after the verb, as typed.
        conf_dir: where the groups are.
        axes: groups that take values as well as options.

    Raises:
        UsageError: a flag, a sweep, a text that is no `key=value`, or an unknown option of a group.
    """
    return [_translate(_parse(text), conf_dir, axes) for text in texts]


def check_keys(translated: Sequence[str], known: Mapping[str, object], axes: Sequence[str]) -> None:
    """Look for the key that Hydra could not find.

    Args:
        translated: overrides as Hydra takes them.
        known: the configuration of the verb without overrides.
        axes: groups that may be chosen although the configuration does without them.

    Raises:
        UsageError: an unknown key, with the valid ones at the level where it leaves the configuration.
    """
    for text in translated:
        key = text.partition("=")[0]
        if not key.startswith("++") and key not in axes:
            _check_key(key, known, axes)


def _parse(text: str) -> Override:
    if text in ("-m", "--multirun"):
        raise UsageError(
            f"{text}: expected key=value, received the multirun flag.",
            "One command plans one screen; write a list axis in brackets, as tokens=[1,8].",
        )
    if text.startswith("-") or "=" not in text:
        raise UsageError(f"{text!r}: expected key=value.", "Write each setting as key=value, without dashes.")
    override = _grammar(text)
    _refuse_forms(text, override)
    _refuse_hydra(override.key_or_group)
    return override


def _grammar(text: str) -> Override:
    """The override as Hydra reads it; a value that its grammar has no word for, as HEAD~1, is taken as it stands."""
    parser = OverridesParser.create()
    try:
        return parser.parse_override(text)
    except HydraException:
        key, _, value = text.partition("=")
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    try:
        return parser.parse_override(f"{key}='{quoted}'")
    except HydraException as error:
        raise UsageError(
            f"{text!r}: expected key=value.", "Write a key of letters, digits, dots and dashes."
        ) from error


def _refuse_forms(text: str, override: Override) -> None:
    key, _, value = text.partition("=")
    if override.is_sweep_override():
        raise UsageError(f"{key}: expected one value or a list, received the sweep {value}.", f"Write {key}=[{value}].")
    if override.type is None or override.type.name != "CHANGE" or override.package is not None:
        raise UsageError(
            f"{text!r}: expected key=value.", "Settings are changed, not added or removed: drop the prefix."
        )


def _refuse_hydra(key: str) -> None:
    """Hydra composes; what it would do besides, as changing folders or logging, is not ours to set."""
    if re.split(r"[./]", key)[0] == "hydra":
        raise UsageError(f"{key}: expected a key of ours, received one of Hydra.", "See `afdep-bench NAME help`.")


def _translate(override: Override, conf_dir: Path, axes: Sequence[str]) -> str:
    group, value = override.key_or_group, override.value()
    names = options(conf_dir, group)
    if group in axes:
        return _axis(override, value, names)
    if names and group not in AXES and value not in names:
        raise UsageError(f"{group}: expected one of its options, received {value!r}.", valid_names(value, names))
    return str(override.input_line)


def _axis(override: Override, value: object, names: Sequence[str]) -> str:
    """An axis by the name of an option, or by its values."""
    axis, text = override.key_or_group, str(override.input_line).partition("=")[2]
    if isinstance(value, str) and value in names:
        return f"{axis}={value}"
    if isinstance(value, str) and value.startswith("["):
        raise UsageError(
            f"{axis}: expected a list, received {value!r}, which does not read as one.",
            "Quote a name that holds brackets: arm=[m2n,'afdep[AFDEP_UNION_NOTIFY=1]'].",
        )
    if isinstance(value, str) and axis in NUMBER_AXES:
        raise UsageError(f"{axis}: expected integers or an option, received {value!r}.", valid_names(value, names))
    return f"++{axis}.values={text if isinstance(value, list) else f'[{text}]'}"


def _check_key(key: str, known: Mapping[str, object], axes: Sequence[str]) -> None:
    level: object = known
    walked: list[str] = []
    for part in key.split("."):
        if not isinstance(level, Mapping) or part not in level:
            inner = dict.fromkeys((*known, *axes)) if not walked else level if isinstance(level, Mapping) else {}
            names = [".".join((*walked, str(name))) for name in inner]
            names += [name for name, _ in flat(known) if name.endswith(f".{key}")]
            raise UsageError(f"{key}: expected a key of the configuration, received another.", valid_names(key, names))
        walked.append(part)
        level = level[part]
