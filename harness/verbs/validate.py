"""`validate`: correctness cases on every layout, each element compared with the reference; records and a matrix."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import sections
from harness.compose import compose
from harness.records.validations import ValidationRecord
from harness.surroundings import OK, Surroundings
from harness.validation import offline, page
from harness.validation.outcome import Outcome
from harness.validation.recording import keep, keep_journal, report, status_of
from harness.validation.running import run_all
from harness.validation.settings import ValidationSettings, validation_settings
from harness.workspace import Workspace, displayed, keep_copy, kept_path


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Play, record and report. The exit status is 1 where a trial failed, and 3 where all are void."""
    config = compose("validate", texts, around.repository / "conf")
    settings = validation_settings(config)
    if settings.to is not None:
        return _write(settings, around)
    kept = kept_path("validation", settings.keep, around.repository)
    folder = Workspace.under(sections.launcher(config).out, around.repository).out / "validations"
    path, records = _recorded(settings, folder, shlex.join(["python", "-m", "harness", "validate", *texts]), around)
    written = [path, path.with_suffix(".md")]
    if kept is not None:
        keep_copy(path, kept)
        written = [kept, report(kept, around.repository / "reports" / "validation" / f"{kept.stem}.md")]
    around.print_line(page.summary(records))
    around.print_line("written: " + ", ".join(displayed(one, around.repository) for one in written))
    return status_of(records)


def _recorded(
    settings: ValidationSettings, folder: Path, command: str, around: Surroundings
) -> tuple[Path, tuple[ValidationRecord, ...]]:
    """Play the trials, or read what was played elsewhere."""
    if settings.source is not None:
        return keep_journal((around.repository / settings.source).resolve(), folder)
    listen = _progress(len(settings.trials), around)
    outcomes = run_all(settings.trials, settings.jobs, listen, around.print_line, settings.gpus)
    return keep(outcomes, folder, command, around.now())


def _write(settings: ValidationSettings, around: Surroundings) -> int:
    """Write the trials for a node without Hydra, and play none."""
    path = offline.write((around.repository / str(settings.to)).resolve(), settings.trials)
    for line in settings.choice.lines():
        around.print_line(line)
    around.print_line(f"written: {displayed(path, around.repository)}, {len(settings.trials)} trials")
    return OK


def _progress(total: int, around: Surroundings) -> Callable[[Outcome], None]:
    """Prints a line for every trial that failed, for every fiftieth, and for the last."""
    say, done = around.timed_lines(), 0

    def listen(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        if outcome.status == "failed" or done % 50 == 0 or done == total:
            say(f"[{done:{len(str(total))}d}/{total}] {outcome.trial.label}: {outcome.status}")

    return listen
