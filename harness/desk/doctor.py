"""`doctor`: what this machine has of what the harness needs."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from afdep.build import cache_folder
from harness.config.compose import compose
from harness.desk.desk import Desk, Workspace
from harness.errors import Exit
from harness.report import published

PACKAGES = {
    **dict.fromkeys(("numpy", "pyarrow", "pandas", "ml_dtypes", "hydra-core", "matplotlib", "pyyaml", "scipy"), True),
    "torch": False,
}
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


def run(texts: Sequence[str], desk: Desk) -> int:
    """Print one line per check; the exit status is an error if something needed is missing."""
    config = compose("command/doctor", texts, desk.conf)
    out = Workspace.out(str(config["launcher"]["out"]), desk).folder
    python = sys.version.split()[0] if sys.version_info >= (3, 11) else None
    machines = ", ".join(sorted(path.stem for path in (desk.conf / "machine").glob("*.yaml")))
    cache = cache_folder()
    nearest = next(one for one in (cache, *cache.parents) if one.exists())
    checks = [
        Check("python 3.11 or newer", python, True),
        *(Check(name, _version(name), needed) for name, needed in PACKAGES.items()),
        *(Check(name, shutil.which(name), needed) for name, needed in PROGRAMS.items()),
        Check("machine descriptions", machines or None, True),
        Check("published figures", published.TABLES.name if published.TABLES.is_file() else None, True),
        Check("trees", "a git repository" if (desk.root / ".git").exists() else "the installed one", True),
        Check("cache of libraries", str(cache) if os.access(nearest, os.W_OK) else None, True),
        Check("out folder", str(out), True),
    ]
    for check in checks:
        desk.print_line(check.line())
    return Exit.ERROR if any(check.needed and not check.found for check in checks) else Exit.OK


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
