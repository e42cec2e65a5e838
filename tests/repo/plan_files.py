"""Plans as plain JSON, without the harness: their hash, and what a plan says of its records: of version 1 all."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from tests.repo.record_files import Row

Plan = dict[str, Any]

OF_ROW = ("layout", "hidden", "dtype", "routing", "experts")
OF_BACKEND = ("machine", "num_exchanges", "proof_exchanges", "ranks_per_gpu", "placement")
OF_EXCHANGE = ("top_k", "capacity", "collect", "mode", "transport_sms", "seed")
OF_PROCESS = ("block", "row", "pair", "position")
OF_CELL = ("tokens", "bucket")


def short_hash(letter: str, data: Any) -> str:
    """Letter and 16 hexadecimal digits of sha256 over `data` as canonical JSON."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return letter + hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> Plan:
    """What a plan file holds: the plan under `plan`, and beside it what its hash leaves out."""
    content: Plan = json.loads(path.read_text("utf-8"))
    return content


def version_of(content: Plan) -> Any:
    """The version of a plan, which is its `format` today."""
    return content["plan"].get("format", content["plan"].get("version"))


def plan_fault(content: Plan, name: str) -> str | None:
    """Return why a plan file is not the one that it is named after, or None."""
    computed, version = short_hash("p", content["plan"]), version_of(content)
    if version not in (1, 2):
        return f"version is {version}, neither 1 nor 2"
    return None if name == content["plan_hash"] == computed else f"has content of {computed}"


def planned(plan: Plan, plan_hash: str, process: Row, cell: Row) -> Row:
    """Every column of a record that its plan decides; its key is that of plan, cell, arm, digest, pair and position."""
    row, arm = plan["rows"][process["row"]], plan["arms"][process["arm"]]
    tree, last = plan["trees"][arm["tree"]], len(plan["trees"]) - 1
    place = [process["arm"], arm["name"], arm["identity"]["digest"], process["pair"], process["position"]]
    return {
        "key": short_hash("k", [plan_hash, row, cell, place]),
        "process_key": short_hash("q", [plan_hash, process]),
        "plan_hash": plan_hash,
        "screen": plan["screen"],
        "harness_digest": plan["harness_digest"],
        "backend": plan["backend"]["name"],
        "arm": arm["name"],
        "arm_index": process["arm"],
        "native_digest": arm["identity"]["digest"],
        "tree": tree["name"],
        "source_digest": tree["source_digest"],
        "slot": f"slot{last - arm['tree'] if process['swapped'] else arm['tree']}",
        **{name: process[name] for name in OF_PROCESS},
        **{name: cell[name] for name in OF_CELL},
        **{name: row[name] for name in OF_ROW},
        **{name: plan["backend"][name] for name in OF_BACKEND},
        **{name: plan["exchange"][name] for name in OF_EXCHANGE},
    }


def records_of(plan: Plan) -> dict[str, Row]:
    """By key, what a plan says of the records of each of its cells."""
    plan_hash = short_hash("p", plan)
    entries = [planned(plan, plan_hash, process, cell) for process in plan["processes"] for cell in plan["cells"]]
    return {entry["key"]: entry for entry in entries}


def record_fault(record: Row, expected: dict[str, Row]) -> str | None:
    """Return what of a record is not as its plan has it, or None."""
    if record["key"] not in expected:
        return f"key {record['key']} is of no cell of the plan"
    other = [name for name, value in expected[record["key"]].items() if record[name] != value]
    if other:
        return f"key {record['key']}: not as planned: {', '.join(other)}"
    if record["status"] == "ok" and record["latency_us"] != median(record["samples_us"]):
        return f"key {record['key']}: the latency is not the median of the samples"
    return None


def trial_keys(path: Path) -> set[str]:
    """The key of every trial of a plan of version 2, those of its later rounds included."""
    plan = read(path)["plan"]
    later = [json.loads(one.read_text("utf-8")) for one in sorted(path.parent.glob(f"{path.stem}.round*.json"))]
    batches = [batch for blocks in (plan["blocks"], *later) for block in blocks for batch in block["batches"]]
    return {key for batch in batches for key in keys_of(plan, batch)}


def keys_of(plan: Plan, batch: Any) -> Iterable[str]:
    """Of the trials of a batch: plan, trial, native digest of the tree and edits; a field at its default is absent."""
    digest = dict(plan["trees"][batch.get("tree", 0)]["native"])[batch.get("backend", "sim")]
    place = [digest, batch.get("edits", [])]
    return [short_hash("k", [short_hash("p", plan), trial, *place]) for trial in batch["trials"]]


def strangers(path: Path, rows: Iterable[Row]) -> list[str]:
    """Return the keys of rows that are of no trial of a plan of version 2, or of another plan."""
    keys = trial_keys(path)
    return [row["key"] for row in rows if row["plan_hash"] != path.stem or row["key"] not in keys]
