"""Hydra at the edge: composes the configuration of a command from conf/ and hands on plain data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.config import overrides
from harness.errors import ConfigError

SCREEN = "screen"


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
    translated = overrides.translate(texts, conf, axes)
    with initialize_config_dir(config_dir=str(conf.resolve()), version_base=None):
        try:
            return _composed(primary, translated, conf)
        except (HydraException, OmegaConfBaseException) as error:
            overrides.check_keys(translated, _composed(primary, _screen_choice(translated), conf), axes)
            first = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
            raise ConfigError(f"{primary}: expected a configuration, received: {first}", "Mend conf/.") from error


def axes_of(primary: str, conf: Path) -> tuple[str, ...]:
    """The groups of a configuration that take values as well as options."""
    named = groups_of(primary, conf)
    return overrides.AXES if SCREEN in named else tuple(axis for axis in overrides.AXES if axis in named)


def groups_of(primary: str, conf: Path) -> dict[str, Any]:
    """The groups that a configuration chooses options of, each with the chosen one."""
    listed = yaml.safe_load((conf / f"{primary}.yaml").read_text(encoding="utf-8")).get("defaults", [])
    return {str(key).strip("/"): one[key] for one in listed if isinstance(one, dict) for key in one}


def _composed(primary: str, translated: Sequence[str], conf: Path) -> dict[str, Any]:
    """Hydra takes a key that is named like a group for one, so what is a plain value here is set behind it."""
    groups = {*groups_of(primary, conf), *axes_of(primary, conf)}
    values = [text for text in translated if (key := text.partition("=")[0]) not in groups and (conf / key).is_dir()]
    config = hydra_compose(primary, [text for text in translated if text not in values])
    return _plain(OmegaConf.merge(config, OmegaConf.from_dotlist(values)))


def _screen_choice(translated: Sequence[str]) -> list[str]:
    """A chosen screen decides which keys there are, so the known keys are read under it."""
    return [text for text in translated if text.partition("=")[0] == SCREEN]


def _plain(config: Any) -> dict[str, Any]:
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def load_options(group: str, conf: Path) -> dict[str, dict[str, Any]]:
    """Every option of a group by name, as plain data."""
    return {name: _plain(OmegaConf.load(conf / group / f"{name}.yaml")) for name in overrides.options(conf, group)}
