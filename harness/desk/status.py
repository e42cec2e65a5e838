"""Commands that only look: what plans have and lack (`status`), what record files hold (`records`), what was published
(`claims`), and what this machine has of what the harness needs (`doctor`).
"""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from afdep.build import cache_folder
from harness.config.compose import compose
from harness.config.read import one_of
from harness.core.plan import PlanFile, Workspace
from harness.desk import select
from harness.desk.desk import Desk, out_folder
from harness.errors import Exit
from harness.records.envelope import OK, STATUSES
from harness.records.table import read, record_files
from harness.report import published
from harness.report.markdown import table
from harness.report.page import num_missing

PACKAGES = {
    **dict.fromkeys(("numpy", "pyarrow", "pandas", "ml_dtypes", "hydra-core", "matplotlib", "pyyaml", "scipy"), True),
    "torch": False,
}
PROGRAMS = {"g++": True, "git": True, "nvcc": False, "nvidia-smi": False}
"""By name, whether the simulator needs it."""


def run(texts: Sequence[str], desk: Desk) -> int:
    """One line per plan, oldest first; plans that cannot be read are named."""
    config = compose("command/status", texts, desk.conf)
    workspace = out_folder(str(config["launcher"]["out"]), desk)
    files, damaged = select.plan_files(workspace)
    header = ["plan", "study", "name", "created", *STATUSES, "missing", "damaged files"]
    desk.print_line(table(header, [_line(file, workspace) for file in files], range(4, len(header))))
    for name, reason in damaged.items():
        desk.print_line(f"quarantined: {name}: {reason}")
    return Exit.OK if files else Exit.NOTHING


def _line(file: PlanFile, workspace: Workspace) -> list[str]:
    part = select.part(file, workspace)
    last = {
        str(row["key"]): str(row["status"]) for row in sorted(part.reading.rows, key=lambda row: row["status"] == OK)
    }
    states = Counter(last.values())
    numbers = [*(states[status] for status in STATUSES), num_missing(part), len(part.reading.quarantined)]
    return [file.plan_hash, file.plan.study, file.plan.name, file.created, *map(str, numbers)]


def records(texts: Sequence[str], desk: Desk) -> int:
    """Count rows by table, backend and status; name files that cannot be read."""
    config = compose("command/records", texts, desk.conf)
    source = str(config["source"])
    path = desk.path(str(config["launcher"]["out"]) if source == select.OUT else source)
    found = read(record_files(path))
    names = ("table", "backend", "status")
    counts = Counter(tuple(str(row.get(name) or "") for name in names) for row in found.rows)
    lines = [[*key, f"{count:,}"] for key, count in sorted(counts.items())]
    desk.print_line(f"{found.num_files} record files")
    desk.print_line(table([*names, "rows"], lines, [len(names)]))
    for one in found.quarantined:
        desk.print_line(f"quarantined: {one.name}: {one.reason}")
    return Exit.OK if found.rows else Exit.NOTHING


def claims(texts: Sequence[str], desk: Desk) -> int:
    """Count claims by kind; with a kind, list its claims. A claim is decided by records from devices alone."""
    config = compose("command/claims", texts, desk.conf)
    known = published.read(published.CLAIMS)
    counts = Counter(claim["kind"] for claim in known)
    kind = one_of("kind", config["kind"], (select.ANY, *sorted(counts)))
    lines = [[one, str(counts[one])] for one in sorted(counts) if kind in (select.ANY, one)]
    desk.print_line(table(["kind", "claims, not run"], lines, [1]))
    for claim in known:
        if claim["kind"] == kind:
            desk.print_line(f"- {claim['id']} (needs {claim['needs']}): {claim['statement']}")
    rows = read(record_files(desk.root / "records")).rows
    devices = sum(row["table"] == "round_trips" and row["backend"] != "sim" for row in rows)
    desk.print_line(f"Device records kept: {devices}; simulated figures decide no claim.")
    return Exit.OK


def doctor(texts: Sequence[str], desk: Desk) -> int:
    """Print one line per check; the exit status is an error if something needed is missing."""
    config = compose("command/doctor", texts, desk.conf)
    out = out_folder(str(config["launcher"]["out"]), desk).folder
    machines = ", ".join(sorted(path.stem for path in (desk.conf / "machine").glob("*.yaml")))
    cache = cache_folder()
    nearest = next(one for one in (cache, *cache.parents) if one.exists())
    checks: list[tuple[str, str | None, bool]] = [
        ("python 3.11 or newer", sys.version.split()[0], True),
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
