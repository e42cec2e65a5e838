"""What the command line takes: the verbs, each with its purpose and its keys, read from their configurations."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.compose import CONF_DIR, VERB_AXES, compose
from harness.overrides import options

_WIDTH, _INDENT = 120, 11


def text(verbs: Sequence[str], conf_dir: Path = CONF_DIR) -> str:
    """One entry per verb: a line that says what it does, and the keys it accepts."""
    entries = [_entry(verb, conf_dir) for verb in verbs]
    return "\n".join(["python -m harness VERB key=value...", "", *entries, "", f"{'help':<{_INDENT}s}This list."])


def keys(verb: str, conf_dir: Path = CONF_DIR) -> list[str]:
    """Every key that a verb accepts: axes, groups that take an option, and single settings."""
    config = compose(verb, (), conf_dir)
    axes = VERB_AXES.get(verb, ())
    settings = [key for name, value in config.items() if name not in axes for key in _keys(name, value, conf_dir)]
    return [*axes, *settings]


def _keys(name: str, value: Any, conf_dir: Path) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield name
        return
    if options(conf_dir, name):
        yield name
    for inner, content in value.items():
        yield from _keys(f"{name}.{inner}", content, conf_dir)


def _entry(verb: str, conf_dir: Path) -> str:
    margin = " " * _INDENT
    listed = textwrap.wrap(f"keys: {' '.join(keys(verb, conf_dir))}", _WIDTH - _INDENT, break_on_hyphens=False)
    return "\n".join([f"{verb:<{_INDENT}s}{_purpose(verb, conf_dir)}", *(margin + line for line in listed)])


def _purpose(verb: str, conf_dir: Path) -> str:
    """The comment that leads the verb's configuration, behind the line that Hydra reads."""
    lines = (conf_dir / "verb" / f"{verb}.yaml").read_text(encoding="utf-8").splitlines()
    return lines[1].removeprefix("# ")
