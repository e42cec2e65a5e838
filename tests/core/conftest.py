"""A bench for real processes: one exported tree for all tests, and plans of a toy study whose trials do as told."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness import studies
from harness.core import plan as plans
from harness.core import planning, trees
from harness.core.executor import Executor, Limits
from harness.core.ledger import Progress
from harness.core.plan import PlanFile, Workspace
from harness.core.planning import Planned, Wanted
from harness.records import read, record_files
from harness.records.envelope import Envelope

ROOT = Path(__file__).resolve().parents[2]
TOYS = Path(__file__).resolve().parent / "toys"
PATIENCE_S = 30.0


@contextmanager
def toys() -> Iterator[None]:
    """The toy study is among the others."""
    studies.__path__.append(str(TOYS))
    try:
        yield
    finally:
        studies.__path__.remove(str(TOYS))


def lay_toys_over(slot: Path, lay: Callable[[Path], None] = trees._lay_harness_over) -> None:
    """The harness as it is, with the toy study among the others."""
    lay(slot)
    shutil.copytree(TOYS / "toy", slot / "harness" / "studies" / "toy", dirs_exist_ok=True)


@dataclass
class Bench:
    """A tree in place, and a folder for what runs leave.

    Args:
        made: the plan that others are made from, with its slots.
        folder: of plans, records and the rest.
    """

    made: Planned
    folder: Path
    lines: list[str] = field(default_factory=list)

    def plan(self, *batches: Sequence[str], **more: Any) -> PlanFile:
        """The kept plan of what these batches do."""
        from harness.studies.toy.program import Settings, blocks

        settings = Settings(tuple(tuple(one) for one in batches), **more)
        plan = replace(self.made.plan, settings=settings, blocks=tuple(blocks(settings, ())))
        return plans.save(self.folder / "plans", plan, "now", "command")

    def executor(self, file: PlanFile, **more: Any) -> Executor:
        """A run of a plan."""
        limits = Limits(more.pop("jobs", 1), more.pop("timeout_s", PATIENCE_S))
        now = itertools.repeat(datetime(2026, 1, 2, tzinfo=UTC))
        return Executor(
            *(file, more.pop("slots", self.made.slots), self.made.sources, Workspace(self.folder), limits),
            Progress(file.plan, time.monotonic, self.lines.append),
            os.environ,
            lambda: next(now),
            "command",
            **more,
        )

    def records(self, file: PlanFile) -> Path:
        return self.folder / "records" / file.plan_hash

    def run(self, file: PlanFile, **more: Any) -> list[Any]:
        """Run a plan to its end: every row that there is then, by trial and attempt."""
        self.executor(file, **more).execute()
        return self.rows(file)

    def rows(self, file: PlanFile) -> list[Any]:
        from harness.studies.toy.program import Record

        found = read(record_files(self.records(file)))
        assert not found.quarantined
        return sorted(found.of(Record), key=lambda row: (row.number, row.attempt))


def said(rows: Sequence[Any]) -> list[tuple[int, str]]:
    """Number and status of rows."""
    return [(row.number, row.status) for row in rows]


def same(row: Envelope) -> dict[str, Any]:
    """What a row says, but for times, hosts, attempts and the run that wrote it."""
    told = dict(vars(row))
    for name in ("created", "seconds", "host", "attempt", "run"):
        del told[name]
    return told


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """The tree, exported and asked once."""
    with toys(), pytest.MonkeyPatch.context() as patch:
        from harness.studies.toy.program import Settings

        patch.setattr(trees, "_lay_harness_over", lay_toys_over)
        wanted = Wanted("toy", "toy", Settings((("ok",),)))
        return planning.make(wanted, ROOT, tmp_path_factory.mktemp("slots"), os.environ)


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    with toys():
        yield


@pytest.fixture
def bench(made: Planned, tmp_path: Path) -> Bench:
    return Bench(made, tmp_path)


DRIVER = """
import json, os, sys
from pathlib import Path
from tests.core.conftest import Bench, toys
held = toys()
held.__enter__()
from harness.core import plan as plans, process
from harness.core.codec import decode
from harness.core.identity import Sources
from harness.core.planning import Planned
from harness.core.trees import Slots
from harness.records import files
told = json.loads(sys.argv[1])
file = plans.load(Path(told["plan"]))
made = Planned(file.plan, Slots(Path(told["slots"]), told["trees"]), decode(Sources, told["sources"]))
bench = Bench(made, Path(told["folder"]))
left = told["steps"]
def kill(name):
    global left
    if name == told["at"]:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), told["signal"])
files.reached.append(kill)
try:
    with process.stopped_by_signals():
        bench.run(file, jobs=told["jobs"])
except process.Interrupted as interruption:
    process.leave(interruption.status)
process.leave(0)
"""


def drive(bench: Bench, file: PlanFile, at: str = "", steps: int = 0, jobs: int = 1) -> "subprocess.Popen[str]":
    """A run of a plan in a process of its own, which is killed as it reaches a step for the n-th time."""
    from harness.core.codec import encode

    told = {
        "plan": str(file.path),
        "slots": str(bench.made.slots.root),
        "trees": bench.made.slots.num_trees,
        "sources": encode(bench.made.sources),
        "folder": str(bench.folder),
        "at": at,
        "steps": steps,
        "signal": int(signal.SIGKILL),
        "jobs": jobs,
    }
    return subprocess.Popen([sys.executable, "-c", DRIVER, json.dumps(told)], cwd=ROOT, text=True)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE_S} s"
        time.sleep(0.02)


def processes_in(folder: Path) -> list[int]:
    """Processes whose working folder lies under `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
