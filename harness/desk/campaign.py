"""`campaign`: the plans of a list, one behind the other, in one bundle for a node."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import yaml

from harness.config.compose import compose
from harness.desk import run as runs
from harness.desk.desk import Desk, need
from harness.errors import Exit, UsageError, valid_names


def run(texts: Sequence[str], desk: Desk) -> int:
    """Bundle every plan of a list; what is in the bundle already stays as it is.

    Raises:
        UsageError: no such list.
    """
    config = compose("command/campaign", texts, desk.conf)
    name, known = need("name", config["name"]), names(desk.conf)
    if name not in known:
        raise UsageError(f"name: expected a list below conf/campaign, received {name!r}.", valid_names(name, known))
    for line in commands(desk.conf, name):
        study, *words = shlex.split(line)
        runs.run(study, [*words, "launcher=node", f"launcher.to={config['to']}"], desk)
    return Exit.OK


def names(conf: Path) -> list[str]:
    """The lists there are."""
    return sorted(path.stem for path in (conf / "campaign").glob("*.yaml"))


def commands(conf: Path, name: str) -> list[str]:
    """What a list says, each the words of a command behind its name."""
    return [str(line) for line in yaml.safe_load((conf / "campaign" / f"{name}.yaml").read_text(encoding="utf-8"))]
