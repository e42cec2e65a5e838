"""What a user may write after the verb: `key=value`, checked against the configuration before Hydra sees it.

An axis of the sweep takes the name of an option (`tokens=paper`) or its values (`tokens=[1,8]`, `layout=2A2F`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from harness.errors import UsageError, valid_names

AXES = ("layout", "hidden", "dtype", "routing", "tokens", "arm")
NUMBER_AXES = ("hidden", "tokens")


def options(conf_dir: Path, group: str) -> tuple[str, ...]:
    """The option names of a configuration group; empty where there is no such group."""
    return tuple(sorted(path.stem for path in (conf_dir / group).glob("*.yaml")))


def check(texts: Sequence[str], known: Mapping[str, object], conf_dir: Path) -> list[str]:
    """The overrides as Hydra takes them.

    Args:
        texts: the words after the verb, as typed.
        known: the configuration of the verb without overrides.
        conf_dir: where the groups are.

    Raises:
        UsageError: a flag, a sweep, a text that is no `key=value`, an unknown key, or an unknown option of a group.
    """
    return [_translate(_parse(text), known, conf_dir) for text in texts]


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


def _translate(override: Override, known: Mapping[str, object], conf_dir: Path) -> str:
    group = override.key_or_group
    value = override.value()
    names = options(conf_dir, group)
    if group not in _keys_and_groups(known, conf_dir):
        _check_key(group, known, conf_dir)
        return str(override.input_line)
    if group in AXES:
        return _axis(override, value, names)
    if names and value not in names:
        raise UsageError(f"{group}: expected one of its options, received {value!r}.", valid_names(value, names))
    if isinstance(known.get(group), Mapping) and not names:
        inner = [f"{group}.{key}" for key in _mapping(known[group])]
        raise UsageError(f"{group}: expected one of its keys, received a value.", valid_names(group, inner))
    return str(override.input_line)


def _axis(override: Override, value: object, names: Sequence[str]) -> str:
    """An axis by the name of an option, or by its values."""
    axis, text = override.key_or_group, str(override.input_line).partition("=")[2]
    if isinstance(value, str) and value in names:
        return f"{axis}={value}"
    if isinstance(value, str) and axis in NUMBER_AXES:
        raise UsageError(f"{axis}: expected integers or an option, received {value!r}.", valid_names(value, names))
    return f"++{axis}.values={text if isinstance(value, list) else f'[{text}]'}"


def _keys_and_groups(known: Mapping[str, object], conf_dir: Path) -> tuple[str, ...]:
    axes = tuple(axis for axis in AXES if "screen" in known and options(conf_dir, axis))
    return tuple(dict.fromkeys((*known, *axes)))


def _check_key(key: str, known: Mapping[str, object], conf_dir: Path) -> None:
    """Walk a dotted key; the error lists what is valid at the level where it leaves the configuration."""
    level: object = known
    walked: list[str] = []
    for part in key.split("."):
        if not isinstance(level, Mapping) or part not in level:
            prefix = "".join(f"{name}." for name in walked)
            inner = _mapping(level) if walked else _keys_and_groups(known, conf_dir)
            names = [f"{prefix}{name}" for name in inner]
            raise UsageError(
                f"{key}: expected a key of the configuration, received an unknown one.", valid_names(key, names)
            )
        walked.append(part)
        level = level[part]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
