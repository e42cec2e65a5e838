"""Hydra at the edge: composes the configuration of a command from conf/ and hands on plain data.

A user writes `key=value`, which is checked and brought into the form that Hydra takes. An axis of the sweep takes the
name of an option (`tokens=paper`) or its values (`tokens=[1,8]`, `layout=2A2F`).
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.errors import ConfigError, UsageError, valid_names

AXES = ("layout", "hidden", "dtype", "routing", "tokens", "arm")
NUMBER_AXES = ("hidden", "tokens")
SCREEN = "screen"
"""The group whose option decides which keys there are."""


def compose(primary: str, texts: Sequence[str], conf: Path) -> dict[str, Any]:
    """A configuration under its overrides, as plain dicts, lists and scalars.

    Args:
        primary: names conf/PRIMARY.yaml, as study/hunt or action/report.
        texts: the words after the command, as typed.
        conf: the configuration directory.

    Raises:
        UsageError: an override that names nothing valid, a sweep or a flag.
        ConfigError: a configuration that does not compose.
    """
    axes = axes_of(primary, conf)
    translated = [_translate(_parse(text), conf, axes) for text in texts]
    with initialize_config_dir(config_dir=str(conf.resolve()), version_base=None):
        try:
            return _composed(primary, translated, conf)
        except (HydraException, OmegaConfBaseException) as error:
            chosen = [text for text in translated if text.partition("=")[0] == SCREEN]
            _check_keys(translated, _composed(primary, chosen, conf), axes)
            first = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
            raise ConfigError(f"{primary}: expected a configuration, received: {first}", "Mend conf/.") from error


def axes_of(primary: str, conf: Path) -> tuple[str, ...]:
    """The groups of a configuration that take values as well as options."""
    named = groups_of(primary, conf)
    return AXES if SCREEN in named else tuple(axis for axis in AXES if axis in named)


def groups_of(primary: str, conf: Path) -> dict[str, Any]:
    """The groups that a configuration chooses options of, each with the chosen one."""
    listed = yaml.safe_load((conf / f"{primary}.yaml").read_text(encoding="utf-8")).get("defaults", [])
    return {str(key).strip("/"): one[key] for one in listed if isinstance(one, dict) for key in one}


def options(conf: Path, group: str) -> tuple[str, ...]:
    """The option names of a configuration group; empty where there is no such group."""
    return tuple(sorted(path.stem for path in (conf / group).glob("*.yaml")))


def _composed(primary: str, translated: Sequence[str], conf: Path) -> dict[str, Any]:
    """Hydra takes a key that is named like a group for one, so what is a plain value here is set behind it."""
    groups = {*groups_of(primary, conf), *axes_of(primary, conf)}
    values = [text for text in translated if (key := text.partition("=")[0]) not in groups and (conf / key).is_dir()]
    config = hydra_compose(primary, [text for text in translated if text not in values])
    return _plain(OmegaConf.merge(config, OmegaConf.from_dotlist(values)))


def _plain(config: Any) -> dict[str, Any]:
    plain: Any = OmegaConf.to_container(config, resolve=True)
    return {str(key): value for key, value in plain.items()}


def _parse(text: str) -> Override:
    if text in ("-m", "--multirun"):
        raise UsageError(
            f"{text}: expected key=value, received the multirun flag.",
            "One command plans one screen; write a list axis in brackets, as tokens=[1,8].",
        )
    if text.startswith("-") or "=" not in text:
        raise UsageError(f"{text!r}: expected key=value.", "Write each setting as key=value, without dashes.")
    override, (key, _, value) = _grammar(text), text.partition("=")
    if override.is_sweep_override():
        raise UsageError(f"{key}: expected one value or a list, received the sweep {value}.", f"Write {key}=[{value}].")
    if override.type is None or override.type.name != "CHANGE" or override.package is not None:
        raise UsageError(
            f"{text!r}: expected key=value.", "Settings are changed, not added or removed: drop the prefix."
        )
    if key.replace("/", ".").partition(".")[0] == "hydra":  # its folders and its logging are not ours to set
        raise UsageError(f"{key}: expected a key of ours, received one of Hydra.", "See `afdep-bench NAME help`.")
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


def _translate(override: Override, conf: Path, axes: Sequence[str]) -> str:
    group, value = override.key_or_group, override.value()
    names = options(conf, group)
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


def _check_keys(translated: Sequence[str], known: Mapping[str, Any], axes: Sequence[str]) -> None:
    """Look for the key that Hydra could not find.

    Args:
        translated: overrides as Hydra takes them.
        known: the configuration of the command without overrides.
        axes: groups that may be chosen although the configuration does without them.

    Raises:
        UsageError: an unknown key, with the valid ones at the level where it leaves the configuration.
    """
    for text in translated:
        key = text.partition("=")[0]
        if not key.startswith("++") and key not in axes:
            _check_key(key, known, axes)


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


def load_options(group: str, conf: Path) -> dict[str, dict[str, Any]]:
    """Every option of a group by name, as plain data."""
    return {name: _plain(OmegaConf.load(conf / group / f"{name}.yaml")) for name in options(conf, group)}


def flat(config: Mapping[str, Any], prefix: str = "", whole: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """Every key of a composed configuration with its value; lists of sections, and keys in `whole`, are one value."""
    for key, held in config.items():
        if isinstance(held, Mapping) and held and f"{prefix}{key}" not in whole:
            yield from flat(held, f"{prefix}{key}.", whole)
        else:
            yield f"{prefix}{key}", held
