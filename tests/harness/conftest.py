"""A bench for real processes: a small git repository whose `afdep` is real but for its World, which only computes."""

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from afdep.sources import RECIPES
from harness.core import plan, trees
from harness.core.plan import PlanFile
from harness.desk import run
from harness.desk.desk import Desk
from harness.machine import gpus
from harness.machine.gpus import Gpus
from harness.ranks.exchanges import RoundTrip
from harness.records import read, record_files

REPOSITORY = Path(__file__).resolve().parents[2]
FAKE = Path(__file__).resolve().parent / "fake"
REPLACED = {"sim/world.py": "world.py", "build.py": "build.py", "proof/exchanges.py": "exchanges.py"}
SMALL = ("screen=grid", "tokens=[1,8]")


def make_tree(root: Path, word: str = "one") -> Path:
    """A source tree under `root` whose native sources are one word."""
    shutil.copytree(REPOSITORY / "afdep", root / "afdep", ignore=shutil.ignore_patterns("__pycache__", "csrc"))
    for name, fake in REPLACED.items():
        shutil.copyfile(FAKE / fake, root / "afdep" / name)
    shutil.copytree(REPOSITORY / "conf", root / "conf")
    (root / "vendor" / "elastic").mkdir(parents=True)
    for unit in {unit for one in RECIPES.values() for unit in one.units}:
        (root / unit).parent.mkdir(parents=True, exist_ok=True)
        (root / unit).write_text('#include "../../vendor/elastic/word.h"\n')
    set_word(root, word)
    return root


def set_word(root: Path, word: str) -> None:
    """Change the native sources, and with them the digest."""
    (root / "vendor" / "elastic" / "word.h").write_text(f"// {word}\n")


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def lay_harness_with_fake_ranks(slot: Path, lay: Callable[[Path], None] = trees._lay_harness_over) -> None:
    """The harness as it is, but for the one module that needs GPUs."""
    lay(slot)
    shutil.copyfile(FAKE / "device.py", slot / "harness" / "ranks" / "device.py")


@contextmanager
def fake_gpus(count: int = 8) -> Iterator[None]:
    """A machine that shows GPUs, and rank groups that need none."""
    with (
        patch.object(trees, "_lay_harness_over", lay_harness_with_fake_ranks),
        patch.object(gpus, "found", lambda: Gpus(count, "NVIDIA H200", 132)),
        patch.object(run, "find_spec", lambda name: name == "torch"),
    ):
        yield


@dataclass
class Bench:
    """A repository to run screens in.

    Args:
        root: its root.
        environ: what its processes may inherit from.
    """

    root: Path
    environ: dict[str, str]
    lines: list[str] = field(default_factory=list)
    first_lines: list[str] = field(default_factory=list)

    @property
    def desk(self) -> Desk:
        ticks = itertools.count()
        now = datetime(2026, 1, 2, tzinfo=UTC)
        return Desk(self.root, self.root, self.environ, lambda: float(next(ticks)), lambda: now, self.lines.append)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def behave(self, *wishes: dict[str, Any]) -> None:
        """Let the fake World act up; the file is no source, so every digest stays."""
        (self.root / "afdep" / "behaviour.json").write_text(json.dumps(wishes))

    def screen(self, *texts: str) -> int:
        with fake_gpus():
            return run.run("screen", [*SMALL, *texts], self.desk)

    @property
    def plan_file(self) -> PlanFile:
        (path,) = self.out("plans").glob("p*.json")
        return plan.load(path)

    def out(self, name: str) -> Path:
        return self.root / "out" / name

    def record_files(self) -> list[Path]:
        return record_files(self.out("records"))

    def records(self) -> Sequence[RoundTrip]:
        reading = read(self.record_files())
        assert not reading.quarantined
        return reading.of(RoundTrip)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A fresh repository with one commit."""
    return make_bench(tmp_path / "repository")


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A bench with one finished screen and its lines, for tests that only read it."""
    done = make_bench(tmp_path_factory.mktemp("measured") / "repository")
    assert done.screen() == 0
    done.first_lines = list(done.lines)
    return done


def make_bench(root: Path) -> Bench:
    make_tree(root)
    (root / ".gitignore").write_text("/out/\n__pycache__/\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return Bench(root, {"PATH": "/usr/bin:/bin", "HOME": str(root)})
