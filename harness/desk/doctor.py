"""`doctor`: what this machine has of what the harness needs."""

import os
import shutil
import sys
from collections.abc import Sequence
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


def run(texts: Sequence[str], desk: Desk) -> int:
    """Print one line per check; the exit status is an error if something needed is missing."""
    config = compose("command/doctor", texts, desk.conf)
    out = Workspace.out(str(config["launcher"]["out"]), desk).folder
    python = sys.version.split()[0] if sys.version_info >= (3, 11) else None
    machines = ", ".join(sorted(path.stem for path in (desk.conf / "machine").glob("*.yaml")))
    cache = cache_folder()
    nearest = next(one for one in (cache, *cache.parents) if one.exists())
    checks: list[tuple[str, str | None, bool]] = [
        ("python 3.11 or newer", python, True),
        *((name, _version(name), needed) for name, needed in PACKAGES.items()),
        *((name, shutil.which(name), needed) for name, needed in PROGRAMS.items()),
        ("machine descriptions", machines or None, True),
        ("published figures", published.TABLES.name if published.TABLES.is_file() else None, True),
        ("trees", "a git repository" if (desk.root / ".git").exists() else "the installed one", True),
        ("cache of libraries", str(cache) if os.access(nearest, os.W_OK) else None, True),
        ("out folder", str(out), True),
    ]
    for name, found, needed in checks:
        state = "ok" if found else "missing" if needed else "absent, optional"
        desk.print_line(f"{state:<17s}{name}{f': {found}' if found else ''}")
    return Exit.ERROR if any(needed and not found for _, found, needed in checks) else Exit.OK


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
