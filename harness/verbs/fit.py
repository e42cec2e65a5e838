"""`fit`: constants of a machine fitted to published figures, with what each does and which of them the figures tell."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from harness.compose import compose, load_options
from harness.errors import UsageError
from harness.fit import machine_file, page, plots
from harness.fit.cells import runner
from harness.fit.experiment import perform
from harness.fit.settings import FitSettings, fit_settings
from harness.fit.study import Study
from harness.records.fits import Fit, read_fit, write_fit
from harness.surroundings import OK, Surroundings
from harness.trees import exclusive_directory
from harness.workspace import Workspace, displayed


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Fit, record and report; no machine file is changed."""
    conf_dir = around.repository / "conf"
    config = compose("fit", texts, conf_dir)
    settings = fit_settings(config, load_options("routing", conf_dir), around.repository)
    folder = _folder(settings, around.repository)
    command = shlex.join(["python", "-m", "harness", "fit", *texts])
    with runner(settings.jobs) as simulate:
        fit = perform(settings, simulate, command, around)
    kept = write_fit(folder, fit)
    written = [kept, *_report(read_fit(kept), kept, settings, around.repository)]
    if settings.write is not None:
        written.append(machine_file.write(settings, fit))
    around.print_line(page.summary(Study(fit)))
    around.print_line("written: " + ", ".join(displayed(path, around.repository) for path in written))
    return OK


def _folder(settings: FitSettings, repository: Path) -> Path:
    """Where the record goes: a new folder under the out folder, or the kept one, which must not be there."""
    if settings.keep is None:
        fits = Workspace.under(settings.screen.launcher.out, repository).out / "fits"
        return exclusive_directory(fits, "fit")
    path = repository / "records" / "fit" / settings.keep
    if path.exists():
        raise UsageError(
            f"keep: expected a new name, received {settings.keep!r}, which is there.", "Records stay: choose another."
        )
    return path


def _report(fit: Fit, folder: Path, settings: FitSettings, repository: Path) -> list[Path]:
    """The page and its plots: beside the record, or under reports/fit where it is kept."""
    pages = folder if settings.keep is None else repository / "reports" / "fit"
    return report(fit, folder.name, pages)


def report(fit: Fit, name: str, pages: Path) -> list[Path]:
    """Write the page of a recorded fit with its plots into a folder."""
    study, path = Study(fit), pages / f"{name}.md"
    pictures = [
        plots.errors(study, pages / f"{name}-errors.png"),
        plots.slopes(study, pages / f"{name}-slopes.png"),
    ]
    path.write_text(page.text(name, study, plots.image_lines(pictures, pages)), encoding="utf-8")
    return [path, *pictures]
