"""Small plans of a study through the real planner and executor, with GPUs stood in for where there are none."""

import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from harness import machine, study
from harness.config.compose import compose
from harness.config.read import read
from harness.core import plan as plans
from harness.core import planning, trees
from harness.core.executor import Executor, Limits
from harness.core.plan import Workspace
from harness.core.planning import Wanted
from harness.machine.gpus import Gpus
from harness.records import read as read_records
from harness.records import record_files
from harness.report.results import Part, Results

ROOT = Path(__file__).resolve().parents[2]
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
TWO_H200 = Gpus(2, "NVIDIA H200", 132)


def settings_of(name, *texts):
    """The settings of a command."""
    config = compose(f"study/{name}", texts, ROOT / "conf")
    del config["launcher"]
    return read(study.program(name).Settings, config)


@dataclass
class Ran:
    """What came of a plan: the report's results, the executor, and the trials as they were told, by status."""

    results: Results
    executor: Executor
    told: list[str] = field(default_factory=list)

    @property
    def rows(self):
        return self.results.of(self.executor.ledger.program.Record)


@contextmanager
def laid_over(files):
    """Exported trees have these files in place of their own: path in the tree to the file."""
    original = trees._lay_harness_over

    def lay(slot):
        original(slot)
        for path, source in files.items():
            (slot / path).parent.mkdir(parents=True, exist_ok=True)
            (slot / path).write_bytes(source.read_bytes())

    with patch.object(trees, "_lay_harness_over", lay):
        yield


def prepare(name, settings, folder, files=(), environ=os.environ):
    """A plan with its slots in place; `files` as `laid_over` takes them."""
    simulated = getattr(study.program(name), "machine", lambda _: None)(settings)
    with laid_over(dict(files)):
        return planning.make(Wanted(name, name, settings, machine=simulated), ROOT, folder / "trees", environ)


def run(made, folder, *, blocks=None, settings=None, gpus=TWO_H200, environ=os.environ):
    """Run a plan to its end.

    Args:
        made: as `prepare` gives it.
        folder: takes plan, records and scratch.
        blocks, settings: of the plan, where they are not those it was made with.
        gpus: that this machine seems to have.
        environ: of the processes.
    """
    plan = replace(made.plan, blocks=blocks or made.plan.blocks, settings=settings or made.plan.settings)
    file = plans.save(folder / "plans", plan, NOON.isoformat(), f"afdep-bench {plan.study}")
    ran = Ran(None, None)
    ran.executor = Executor(
        *(file, made.slots, made.sources, Workspace(folder), Limits(2, 60.0)),
        told_by(lambda trial, rows: ran.told.append(rows[0].status)),
        environ,
        lambda: NOON,
        file.command,
    )
    with patch.object(machine.gpus, "found", lambda: gpus):
        ran.executor.execute()
    ran.results = Results(plan.study, plan.study, (Part(file, read_records(record_files(folder / "records"))),))
    return ran


def told_by(judged):
    """Progress that tells of trials alone."""
    return SimpleNamespace(stage=lambda batch, text: None, judged=judged, total=0)


def wait_until(condition, what, patience_s=60.0):
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {patience_s} s"
        time.sleep(0.05)


def processes_in(folder):
    """Processes whose working folder lies under `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return found
