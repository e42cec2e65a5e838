"""`validate`: correctness cases on every layout, each element compared with the reference; records and a matrix."""

import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import sections
from harness.compose import compose
from harness.digests import harness_digest
from harness.errors import UsageError
from harness.records.validations import ValidationRecord, read_validation, write_validation
from harness.surroundings import FOUND, NOTHING, OK, Surroundings
from harness.validation import page
from harness.validation.playing import Outcome
from harness.validation.recording import record
from harness.validation.running import run_all
from harness.validation.settings import validation_settings
from harness.workspace import Workspace, displayed


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Play, record and report. The exit status is 1 where a trial failed, and 3 where all are void."""
    config = compose("validate", texts, around.repository / "conf")
    settings = validation_settings(config)
    kept = _kept(settings.keep, around.repository)
    folder = Workspace.under(sections.launcher(config).out, around.repository).out / "validations"
    command = shlex.join(["python", "-m", "harness", "validate", *texts])
    outcomes = run_all(settings.trials, settings.jobs, _progress(len(settings.trials), around))
    created, digest = around.now().isoformat(timespec="seconds"), harness_digest(around.repository)
    path = write_validation(folder, [record(one, command, created, digest) for one in outcomes])
    written = [path, report(path, path.with_suffix(".md"))]
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, kept)
        written = [kept, report(kept, around.repository / "reports" / "validation" / f"{kept.stem}.md")]
    records = read_validation(path)
    around.print_line(page.summary(records))
    around.print_line("written: " + ", ".join(displayed(one, around.repository) for one in written))
    return _status(records)


def report(records: Path, target: Path) -> Path:
    """Write the matrix page of a record file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page.text(target.stem, read_validation(records)), encoding="utf-8")
    return target


def _status(records: Sequence[ValidationRecord]) -> int:
    found = {one.status for one in records}
    return FOUND if "failed" in found else OK if "ok" in found else NOTHING


def _kept(name: str | None, repository: Path) -> Path | None:
    if name is None:
        return None
    path = repository / "records" / "validation" / f"{name}.parquet"
    if path.exists():
        raise UsageError(
            f"keep: expected a new name, received {name!r}, which is there.", "Records stay: choose another."
        )
    return path


def _progress(total: int, around: Surroundings) -> Callable[[Outcome], None]:
    """Prints a line for every trial that is not ok, and for every fiftieth."""
    started, done = around.clock(), 0

    def listen(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        if outcome.status == "failed" or done % 50 == 0 or done == total:
            count = f"[{done:{len(str(total))}d}/{total}]"
            seconds = f"({around.clock() - started:.1f} s)"
            around.print_line(f"{count} {outcome.trial.label}: {outcome.status}  {seconds}")

    return listen
