"""`doctor`: what this machine has of what the harness needs."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness import published, sections
from harness.compose import compose
from harness.surroundings import ERROR, OK, Surroundings
from harness.workspace import Workspace

PACKAGES = ("numpy", "pyarrow", "ml_dtypes", "hydra-core", "matplotlib", "pyyaml", "scipy")
PROGRAMS = {"g++": True, "git": True, "nvcc": False, "nvidia-smi": False}
"""By name, whether the simulator needs it."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked for.

    Args:
        name: the thing.
        found: what was found, or None.
        needed: whether screens on the simulator need it.
    """

    name: str
    found: str | None
    needed: bool

    def line(self) -> str:
        state = "ok" if self.found else "missing" if self.needed else "absent, optional"
        return f"{state:<17s}{self.name}{f': {self.found}' if self.found else ''}"


def run(texts: Sequence[str], around: Surroundings) -> int:
    """Print one line per check; the exit status is an error if something needed is missing."""
    config = compose("doctor", texts, around.repository / "conf")
    out = Workspace.under(sections.launcher(config).out, around.repository).out
    checks = [*_interpreter(), *_programs(), *_files(around.repository), _writable(out)]
    for check in checks:
        around.print_line(check.line())
    return ERROR if any(check.needed and not check.found for check in checks) else OK


def _interpreter() -> list[Check]:
    python = sys.version.split()[0] if sys.version_info >= (3, 11) else None
    return [Check("python 3.11 or newer", python, True), *(Check(name, _version(name), True) for name in PACKAGES)]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _programs() -> list[Check]:
    return [Check(name, shutil.which(name), needed) for name, needed in PROGRAMS.items()]


def _files(repository: Path) -> list[Check]:
    machines = ", ".join(sorted(path.stem for path in (repository / "conf" / "machine").glob("*.yaml")))
    tables = str(published.TABLES.name) if published.TABLES.is_file() else None
    git = "a git repository" if (repository / ".git").exists() else None
    return [
        Check("machine descriptions", machines or None, True),
        Check("published figures", tables, True),
        Check("trees", git, True),
    ]


def _writable(out: Path) -> Check:
    nearest = next(path for path in (out, *out.parents) if path.exists())
    return Check("out folder", str(out) if os.access(nearest, os.W_OK) else None, True)
