"""`NAME run`, `NAME plan` and `campaign`: settings, plan, executor, and what came of it."""

import fcntl
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

import yaml

from afdep import controls
from harness import study
from harness.config.compose import compose, options
from harness.config.read import one_of, read
from harness.core import plan as plans
from harness.core import planning
from harness.core.executor import Executor, Limits
from harness.core.ledger import Progress
from harness.core.plan import PlanFile, Workspace
from harness.core.planning import Planned, Wanted
from harness.desk import node, select
from harness.desk.desk import Desk, Launcher, counted, need, out_folder
from harness.errors import Exit, UsageError
from harness.machine import gpus
from harness.records.envelope import FAILED
from harness.report.results import Results

_WRITTEN = ("plans", "records", "reports")
"""Folders of a workspace where a writer that died may have left a file under its temporary name."""


def run(name: str, texts: Sequence[str], desk: Desk) -> int:
    """Plan a study and run what is not recorded yet; a second run of the same plan measures nothing and says so."""
    wanted, launcher = asked(name, texts, desk)
    if launcher.name == "local" and any(one.backend == "cuda" for one in wanted.arms):
        _check_gpus()
    with planned(wanted, launcher, texts, desk) as (made, file):
        if launcher.name == "node":
            return node.add(file, made.slots, made.sources, launcher, desk)
        select.use(out_folder(launcher.out, desk), file)
        executor = _executed(wanted, launcher, made, file, desk)
    return conclude(executor, desk)


def plan(name: str, texts: Sequence[str], desk: Desk) -> int:
    """Keep the plan of a study and say what it would take; nothing runs."""
    wanted, launcher = asked(name, texts, desk)
    with planned(wanted, launcher, texts, desk) as (_, file):
        select.use(out_folder(launcher.out, desk), file)
        batches = file.plan.batches
        trials = sum(len(batch.trials) for batch in batches)
        together = launcher.jobs if all(batch.backend == "sim" for batch in batches) else 1
        minutes = sum(batch.expected_s for batch in batches) / 60 / together
        sizes = [(len(file.plan.blocks), "block"), (len(batches), "job"), (trials, "trial")]
        about = counted(max(1, round(minutes)), "minute")
        desk.print_line(f"plan {file.plan_hash}: {', '.join(counted(*size) for size in sizes)}; about {about}")
        for arm in file.plan.arms:
            desk.print_line(f"  {arm.name}: {arm.identity.digest} {arm.identity.switches_text()}".rstrip())
        desk.print_line(f"written: {desk.shown(file.path)}")
    return Exit.OK


def campaign(texts: Sequence[str], desk: Desk) -> int:
    """Bundle every plan of a list; what is in the bundle already stays as it is.

    Raises:
        ValueReadError: no such list.
    """
    config = compose("command/campaign", texts, desk.conf)
    name = one_of("name", need("name", config["name"]), options(desk.conf, "campaign"))
    for line in yaml.safe_load((desk.conf / "campaign" / f"{name}.yaml").read_text(encoding="utf-8")):
        study_name, *words = shlex.split(line)
        run(study_name, [*words, "launcher=node", f"launcher.to={config['to']}"], desk)
    return Exit.OK


def asked(name: str, texts: Sequence[str], desk: Desk) -> tuple[Wanted, Launcher]:
    """What the words after a study say.

    Raises:
        ControlError: a variable of the environment that no control reads, so that another arm might be meant.
    """
    controls.from_environ(desk.environ)
    config = compose(f"study/{name}", texts, desk.conf)
    launcher = read(Launcher, config.pop("launcher"), "launcher")
    out_folder(launcher.out, desk)
    return wanted_of(name, config, desk), launcher


def _check_gpus() -> None:
    """Refuse arms on GPUs where there are none, before anything is exported."""
    here = gpus.found() if find_spec("torch") else "needs torch, which is not installed"
    if isinstance(here, str):
        raise UsageError(
            f"backend: expected GPUs and torch for cuda, received a machine that {here}.",
            "Run it there, plan it here for a node by launcher=node, or write backend=sim.",
        )


@contextmanager
def planned(wanted: Wanted, launcher: Launcher, texts: Sequence[str], desk: Desk) -> Iterator[tuple[Planned, PlanFile]]:
    """The kept plan of what is asked for, and its trees in place for the block."""
    workspace = out_folder(launcher.out, desk)
    with _alive(workspace):
        what = " ".join(dict.fromkeys((wanted.study, wanted.name)))
        desk.print_line(f"{what}: exporting, building and asking each tree what it is")
        made = planning.make(wanted, desk.root, workspace.trees, desk.environ)
        try:
            command = shlex.join(["afdep-bench", wanted.study, *texts])
            created = desk.now().isoformat(timespec="seconds")
            yield made, plans.save(workspace.plans, made.plan, created, command)
        finally:
            made.slots.remove()


@contextmanager
def _alive(workspace: Workspace) -> Iterator[None]:
    """Runs of one out folder share a lock; who finds nobody there sweeps what dead ones have left."""
    workspace.folder.mkdir(parents=True, exist_ok=True)
    with (workspace.folder / ".alive").open("w") as stream:
        with suppress(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left = [*workspace.trees.glob("run-*"), *workspace.scratch.glob("batch-*")]
            for folder in left:
                shutil.rmtree(folder, ignore_errors=True)
            for file in [one for part in _WRITTEN for one in (workspace.folder / part).rglob(".*.tmp")]:
                file.unlink(missing_ok=True)
        fcntl.flock(stream, fcntl.LOCK_SH)
        yield


def wanted_of(name: str, config: Mapping[str, Any], desk: Desk) -> Wanted:
    """What a composed configuration asks for: by the study's own reading, or field by field."""
    program: Any = study.program(name)
    if (own := study.settings(name)) is not None:
        return own.wanted(config, desk)  # type: ignore[no-any-return]
    settings = read(program.Settings, config)
    arms = getattr(program, "arms", lambda _: ())(settings)
    machine = getattr(program, "machine", lambda _: None)(settings)
    return Wanted(name, name, settings, arms=tuple(arms), machine=machine)


def _executed(wanted: Wanted, launcher: Launcher, made: Planned, file: PlanFile, desk: Desk) -> Executor:
    """A run of the plan, once it is over."""
    executor = Executor(
        file,
        made.slots,
        made.sources,
        out_folder(launcher.out, desk),
        Limits(launcher.jobs, launcher.timeout_s, time.monotonic() + 60 * launcher.minutes),
        Progress(file.plan, desk.clock, desk.print_line),
        desk.environ,
        desk.now,
        file.command,
        wanted.trace,
    )
    total = sum(len(batch.trials) for batch in file.plan.batches)
    desk.print_line(f"plan {file.plan_hash}: {total} trials, {executor.progress.total} to run")
    if executor.progress.total == 0:
        desk.print_line("nothing to measure: every trial of this plan is recorded")
    executor.execute()
    return executor


def conclude(executor: Executor, desk: Desk) -> int:
    """Print what the records say and every failure; the exit status says what that amounts to."""
    plan, workspace = executor.file.plan, executor.workspace
    report: Any = study.report(plan.study)
    results = Results(plan.study, plan.name, (select.part(executor.file, workspace),))
    desk.print_line("\n" + report.summary(results))
    for folder, reason in executor.failures.items():
        desk.print_line(f"failed: {reason}")
        kept = workspace.folder / "failures" / folder.name  # where no later run sweeps
        kept.parent.mkdir(exist_ok=True)
        desk.print_line(f"  all of stderr in {desk.shown(folder.rename(kept))}")
    failed = any((row["run"], row["status"]) == (executor.run_name, FAILED) for row in results.rows)
    status = int(report.status(results))
    return Exit.ERROR if failed and status in (Exit.OK, Exit.NOTHING) else status
