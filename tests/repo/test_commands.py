"""Every command that a page, the Makefile or a comment of conf names is one that the harness takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import cli, study
from harness.config.compose import compose
from harness.desk import run
from harness.desk.desk import Desk
from harness.errors import HarnessError
from tests.studies.bench import desk_at

COMMAND = re.compile(r"(?:afdep-bench|\$\(BENCH\)) +([^`#|>\n]*)")
ANY = re.compile(r"[A-Z]{3,}|\.\.\.|\$")
"""Words that stand for any name, and what a shell or make puts in."""


def commands(text: str) -> Iterator[list[str]]:
    """The words behind each `afdep-bench` that names a whole command."""
    for line in COMMAND.findall(text.replace("\\\n", " ")):
        if line.split() and not ANY.search(line):
            yield shlex.split(line)


def check(words: list[str], desk: Desk) -> None:
    """Read a command as the harness does, up to where it would do something.

    Raises:
        HarnessError: it is none.
    """
    name, *rest = words
    if {"help", "--help"} & set(rest) or name in ("help", "--help"):
        return
    if name in cli.COMMANDS:
        compose(f"command/{name}", rest, desk.conf)
        return
    action = rest.pop(0) if rest and "=" not in rest[0] else "run"
    assert name in study.names()
    assert action in cli.ACTIONS
    if action in ("run", "plan"):
        run.asked(name, rest, desk)
    else:
        compose(f"action/{action}", rest, desk.conf)


@pytest.fixture
def desk(root: Path) -> Desk:
    return desk_at(root, [])


def named(root: Path) -> dict[str, list[list[str]]]:
    pages = [root / "Makefile", *root.glob("*.md"), *(root / "docs").glob("*.md"), *(root / "slurm").glob("*.md")]
    pages += sorted((root / "conf").rglob("*.yaml"))
    return {str(path.relative_to(root)): found for path in pages if (found := list(commands(path.read_text("utf-8"))))}


def test_every_command_that_is_named_is_taken(root: Path, desk: Desk) -> None:
    found = named(root)
    assert {"Makefile", "README.md", "CONTRIBUTING.md"} <= set(found)
    assert sum(map(len, found.values())) > 30
    for words in (words for held in found.values() for words in held):
        check(words, desk)


@pytest.mark.parametrize("text", ["hunt hunt.budget=20000", "screen report nothing=1", "campaign names=h200"])
def test_a_command_with_a_key_that_is_none_is_noticed(text: str, desk: Desk) -> None:
    ((words),) = commands(f"`afdep-bench {text}`")
    with pytest.raises(HarnessError):
        check(words, desk)
