"""Record files of earlier formats: verified by the hash that they carry, and read with the column names of today."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.records.envelope import FAILED, OK, VOID
from harness.records.errors import DamagedError

_VERSIONS = {"schema_version": ("1", "2"), "table_version": ("1",), "hunt_schema_version": ("1",)}
"""Keys in a file's metadata that say which format it has, and what they may say."""

Data = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of archived table.

    Args:
        table: that its rows belong to today.
        columns: that it alone has.
        study: that it was of, where its rows say that today.
        renamed: columns by the name that they had.
        more: what follows from an archived row for today's columns.
    """

    table: str
    columns: tuple[str, ...]
    study: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    more: Callable[[Data], Data] = lambda row: {}


def _screened(row: Data) -> Data:
    return {"reason": row["void_reason"] or row["fail_reason"]}


def _injected(row: Data) -> Data:
    outcome, by = row["outcome"], "caught: "
    status = outcome if outcome in (VOID, FAILED) else OK
    caught = outcome.removeprefix(by) if outcome.startswith(by) else None
    said = {"said": row["reason"], "reason": None} if status == OK else {"said": None}
    return {"status": status, "caught": caught, **said}


def _hunted(row: Data) -> Data:
    found = "; ".join(row["findings"]) or None
    return {"status": FAILED if found else OK, "reason": found}


def _read(row: Data) -> Data:
    return {"status": OK if row["void"] is None else VOID}


def _tested(row: Data) -> Data:
    status = {"passed": OK, "skipped": VOID}.get(row["outcome"], FAILED)
    return {"status": status, "reason": row["said"] if status != OK else None}


_EXPERTS = {"experts": "num_experts"}
KINDS = (
    Kind("round_trips", ("schema_version", "process_key"), "screen", _EXPERTS, _screened),
    Kind("trials", ("witness", "witnessed"), "validate", {"witness": "condition", "witnessed": "times_met"}),
    Kind("faults", ("control", "late", "marked"), "faults", more=_injected),
    Kind("sanitized", ("tool", "in_kernel"), "sanitize", {"plant": "control"}),
    Kind("device_tests", ("test", "outcome"), "device-tests", {"seconds": "test_s"}, _tested),
    Kind("hunts", ("first_seed", "failed_seeds"), "hunt", more=_hunted),
    Kind("readings", ("probe", "samples", "void"), "calibrate", {"void": "reason"}, _read),
    Kind("calibrations", ("probes_hash", "most_sm_mhz"), renamed={"device": "machine"}),
    Kind("calibrated", ("base_source", "spread"), renamed={"status": "outcome"}),
    Kind("fits", ("published", "candidate", "settings")),
    Kind("fit_cells", ("published_baseline_us",), renamed=_EXPERTS),
    Kind("fit_constants", ("stepped", "refitted")),
    Kind("fit_slopes", ("slope", "exchanges", "error")),
    Kind("fit_steps", ("evaluation", "cost")),
    Kind("fit_refits", ("alone", "simulated_us")),
    Kind("measured_fits", ("measured_digest", "held_out_arm")),
    Kind("measured_plans", ("timing", "plan_hash"), renamed={"command": "plan_command", "created": "plan_created"}),
    Kind("measured_absences", ("what",)),
    Kind("measured_cells", ("compared_us", "replay"), renamed=_EXPERTS),
    Kind("measured_constants", ("kind", "source", "refitted")),
    Kind("measured_slopes", ("slope", "cell")),
)


def rows(path: Path, told: Mapping[str, str], found: Sequence[Data]) -> list[Data]:
    """The rows of an archived file, with today's names.

    Args:
        path: of the file.
        told: its metadata.
        found: its rows as they are stored.

    Raises:
        DamagedError: a format that nobody knows, or other rows than were written.
    """
    version = next((key for key in _VERSIONS if told.get(key) in _VERSIONS[key]), None)
    kind = next((one for one in KINDS if found and set(one.columns) <= set(found[0])), None)
    if version is None or kind is None:
        raise DamagedError(f"{path.name}: expected a record file, received another table.", "Keep it to look at.")
    lines = [json.dumps(row, sort_keys=True) for row in found]
    text = "".join(f"{one}\n" for one in lines) if version == "schema_version" else "\n".join(lines)
    if told.get("content_sha256") != hashlib.sha256(text.encode()).hexdigest():
        raise DamagedError(f"{path.name}: expected the rows that were written, received others.", "Look at the disk.")
    return [_today(kind, row) for row in found]


def _today(kind: Kind, row: Data) -> Data:
    values = {kind.renamed.get(name, name): value for name, value in row.items()}
    study = {} if kind.study is None else {"study": kind.study}
    return {**values, **study, **kind.more(row), "table": kind.table}
