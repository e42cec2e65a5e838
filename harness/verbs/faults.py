"""`faults`: guards taken out of the kernels, and places that are late, in the hunt and on the GPUs of a node."""

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from harness import sections
from harness.compose import compose
from harness.errors import UsageError
from harness.faults import offline, page, trees
from harness.faults.hunting import Hunted, hunt_all
from harness.faults.on_gpus import Job
from harness.faults.recording import of_hunts, report, status_of
from harness.faults.settings import FaultSettings, fault_settings
from harness.records.faults import read_faults, write_faults
from harness.surroundings import OK, Surroundings
from harness.workspace import Workspace, displayed, keep_copy, kept_path


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Hunt, join what a node left, record and report. The exit status is 1 where shipped kernels are not exact."""
    config = compose("faults", texts, around.repository / "conf")
    settings = fault_settings(config, around.repository)
    if settings.to is not None:
        return _make(settings, settings.to, around)
    kept = kept_path("faults", settings.keep, around.repository)
    measured = [] if settings.source is None else read_faults(settings.source)
    command = shlex.join(["python", "-m", "harness", "faults", *texts])
    hunts = of_hunts(hunt_all(settings.shipped_seeds, lambda one: around.print_line(_line(one))), command, around.now())
    folder = Workspace.under(sections.launcher(config).out, around.repository).out / "faults"
    path = write_faults(folder, [*hunts, *measured])
    written = [path, report(path, path.with_suffix(".md"))]
    if kept is not None:
        keep_copy(path, kept)
        written = [kept, report(kept, around.repository / "reports" / "faults" / f"{kept.stem}.md")]
    records = read_faults(path)
    around.print_line(page.summary(records))
    around.print_line("written: " + ", ".join(displayed(one, around.repository) for one in written))
    return status_of(records)


def _line(one: Hunted) -> str:
    said = "" if one.reason is None else f": {one.reason}"
    return f"{one.outcome}, {one.seeds} seeds, {one.seconds:.1f} s: {one.control} ({one.arm}){said}"


def _make(settings: FaultSettings, folder: Path, around: Surroundings) -> int:
    """Make the folder of a node: it is replaced if there is one of that name."""
    if folder.exists() and not (folder / offline.TREE).exists():
        raise UsageError(
            f"to: expected a new folder or one that `faults` made, received {folder.name!r}, which is neither.",
            "It would be replaced: choose another.",
        )
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("afdep", "harness"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(around.repository / part, folder / offline.TREE / part, ignore=ignored)
    digests = trees.build_all(folder / offline.LIBRARIES, lambda name: around.print_line(f"built: {name}"))
    trials = tuple(settings.making.trials())
    job = Job(trials, tuple(digests.items()), settings.timeout_s, settings.stuck_s, settings.limit_s)
    offline.write(folder, job)
    around.print_line(
        f"written: {displayed(folder, around.repository)}, {len(digests)} libraries, {len(trials)} trials"
    )
    return OK
