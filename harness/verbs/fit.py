"""`fit`: constants of a machine fitted to published or measured figures, with what the figures tell of them."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.compose import compose, load_options
from harness.errors import UsageError
from harness.fit import machine_file, measured, page, plots
from harness.fit.cells import mapping, runner
from harness.fit.experiment import perform
from harness.fit.settings import NONE, fit_settings
from harness.fit.study import Study
from harness.records.fits import Fit, read_fit, write_fit
from harness.records.measured_fits import read_measured_fit, write_measured_fit
from harness.sections import launcher
from harness.surroundings import OK, Surroundings
from harness.trees import exclusive_directory
from harness.words import as_choice
from harness.workspace import Workspace, displayed, kept_path

PUBLISHED, MEASURED = "published", "measured"


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Fit, record and report; no machine file is changed."""
    config = compose("fit", texts, around.repository / "conf")
    target = as_choice("fit.target", config["fit"]["target"], (PUBLISHED, MEASURED))
    command = shlex.join(["python", "-m", "harness", "fit", *texts])
    perform_on = {PUBLISHED: _published, MEASURED: _measured}[target]
    written, summary = perform_on(config, texts, command, around)
    around.print_line(summary)
    around.print_line("written: " + ", ".join(displayed(path, around.repository) for path in written))
    return OK


def _published(
    config: Mapping[str, Any], texts: Sequence[str], command: str, around: Surroundings
) -> tuple[list[Path], str]:
    """A fit to the published table."""
    if (config["source"], config["digest"]) != (NONE, "any"):
        raise UsageError(
            "source: expected none beside published figures, received one.", "Write fit=measured for measured ones."
        )
    settings = fit_settings(config, load_options("routing", around.repository / "conf"), around.repository)
    folder = _folder(settings.keep, settings.screen.launcher.out, around.repository)
    with runner(settings.jobs) as simulate:
        fit = perform(settings, simulate, command, around)
    kept = write_fit(folder, fit)
    written = [kept, *report(read_fit(kept), kept.name, _pages(kept, settings.keep, around.repository))]
    if settings.write is not None:
        written.append(machine_file.write(settings, fit))
    return written, page.summary(Study(fit))


def _measured(
    config: Mapping[str, Any], texts: Sequence[str], command: str, around: Surroundings
) -> tuple[list[Path], str]:
    """A fit to what a device took."""
    settings = measured.measured_settings(config, texts, around.repository)
    folder = _folder(settings.keep, launcher(config).out, around.repository)
    with mapping(settings.jobs, measured.simulate) as simulate:
        fit = measured.perform(settings, simulate, command, around)
    kept = write_measured_fit(folder, fit)
    found = measured.Study(read_measured_fit(kept))
    written = [kept, *measured_report(found, kept.name, _pages(kept, settings.keep, around.repository))]
    if settings.write is not None:
        written.append(measured.write_machine(settings, fit, kept.name, around.repository))
    return written, measured.summary(found)


def _folder(keep: str | None, out: str, repository: Path) -> Path:
    """Where the record goes: a new folder under the out folder, or the kept one, which must not be there."""
    kept = kept_path("fit", keep, repository, suffix="")
    return kept or exclusive_directory(Workspace.under(out, repository).out / "fits", "fit")


def _pages(folder: Path, keep: str | None, repository: Path) -> Path:
    """Where the page and its plots go: beside the record, or under reports/fit where it is kept."""
    return folder if keep is None else repository / "reports" / "fit"


def report(fit: Fit, name: str, pages: Path) -> list[Path]:
    """Write the page of a recorded fit to published figures with its plots into a folder."""
    study, path = Study(fit), pages / f"{name}.md"
    pictures = [
        plots.errors(study, pages / f"{name}-errors.png"),
        plots.slopes(study, pages / f"{name}-slopes.png"),
    ]
    path.write_text(page.text(name, study, plots.image_lines(pictures, pages)), encoding="utf-8")
    return [path, *pictures]


def measured_report(study: measured.Study, name: str, pages: Path) -> list[Path]:
    """Write the page of a recorded fit to measured figures with its plot into a folder."""
    picture = measured.errors(study, pages / f"{name}-errors.png")
    path = pages / f"{name}.md"
    path.write_text(measured.text(name, study, measured.image_line(picture, pages)), encoding="utf-8")
    return [path, picture]
