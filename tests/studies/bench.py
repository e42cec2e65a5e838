"""What tests of studies share: settings as a command reads them, a group without a worker, and a desk of its own."""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.config.compose import compose
from harness.core.identity import Identity
from harness.desk import run
from harness.desk.desk import Desk
from harness.records import table

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Alone:
    """A group that is no worker's: it takes note of what it is told."""

    settings: Any
    library: Path | None = None
    opened: dict[str, Any] = field(default_factory=dict)
    checked: list[tuple[str, Identity]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    turns: int = 0

    def __post_init__(self) -> None:
        self.session = SimpleNamespace(opened=self.take)

    def take(self, **facts: Any) -> None:
        self.opened |= facts
        self.seeds += [facts["seed"]] if "seed" in facts else []

    def check(self, arm: str, loaded: Identity) -> None:
        self.checked.append((arm, loaded))

    def turn(self) -> None:
        self.turns += 1


def desk_at(root: Path, lines: list[str]) -> Desk:
    """A desk at a tree, whose lines are kept."""
    return Desk(root, root, os.environ, time.monotonic, lambda: datetime(2026, 1, 2, tzinfo=UTC), lines.append)


def settings_of(study: str, *texts: str, root: Path = ROOT) -> Any:
    """The settings that a command line asks for."""
    desk = desk_at(root, [])
    config = compose(f"study/{study}", texts, desk.conf)
    config.pop("launcher")
    return run.wanted_of(study, config, desk).settings


def copied_tree(folder: Path) -> Path:
    """A repository with the files of this tree that a slot holds."""
    for part in ("afdep", "vendor", "conf"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    return folder


def edit(path: Path, shipped: str, instead: str) -> None:
    """Replace a text that stands once in a file."""
    text = path.read_text("utf-8")
    assert text.count(shipped) == 1
    path.write_text(text.replace(shipped, instead), "utf-8")


def rows_of(kind: Any, folder: Path) -> list[Any]:
    """The rows of a table in the record files of a folder."""
    return list(table.read(table.record_files(folder)).of(kind))
