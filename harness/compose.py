"""Hydra at the edge: composes the configuration of a verb from conf/ and hands on plain data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness import overrides
from harness.errors import ConfigError

CONF_DIR = Path(__file__).resolve().parent.parent / "conf"
SCREEN = "screen"
VERB_AXES = {SCREEN: overrides.AXES, "plan": overrides.AXES, "hunt": ("arm",), "fit": overrides.AXES}
"""Groups of a verb that take values as well as options."""


def compose(verb: str, texts: Sequence[str], conf_dir: Path = CONF_DIR) -> dict[str, Any]:
    """The configuration of a verb under its overrides, as plain dicts, lists and scalars.

    Args:
        verb: names conf/verb/VERB.yaml.
        texts: the words after the verb, as typed.
        conf_dir: the configuration directory.

    Raises:
        UsageError: an override that names nothing valid, a sweep or a flag.
        ConfigError: a configuration that does not compose.
    """
    axes = VERB_AXES.get(verb, ())
    translated = overrides.translate(texts, conf_dir, axes)
    with initialize_config_dir(config_dir=str(conf_dir.resolve()), version_base=None):
        try:
            return _composed(verb, translated)
        except (HydraException, OmegaConfBaseException) as error:
            overrides.check_keys(translated, _composed(verb, _screen_choice(translated)), axes)
            first = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
            raise ConfigError(f"{verb}: expected a configuration, received: {first}", "Mend conf/.") from error


def _composed(verb: str, translated: Sequence[str]) -> dict[str, Any]:
    return _plain(hydra_compose(f"verb/{verb}", list(translated)))


def _screen_choice(translated: Sequence[str]) -> list[str]:
    """A chosen screen decides which keys there are, so the known keys are read under it."""
    return [text for text in translated if text.partition("=")[0] == SCREEN]


def _plain(config: Any) -> dict[str, Any]:
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def load_options(group: str, conf_dir: Path = CONF_DIR) -> dict[str, dict[str, Any]]:
    """Every option of a group by name, as plain data."""
    return {
        name: _plain(OmegaConf.load(conf_dir / group / f"{name}.yaml")) for name in overrides.options(conf_dir, group)
    }
