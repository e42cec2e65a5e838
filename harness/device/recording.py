"""From a device run to records: one a rank and cell, in the schema of every measurement, with backend `cuda`."""

import dataclasses
import statistics
from typing import Any

from afdep import Layout
from harness.device.launch import Outcome
from harness.device.settings import Settings
from harness.digests import short_hash
from harness.records import Record

REDUCER = "median of samples"
SCREEN = "device"
MODE = "graph"


def records(outcome: Outcome, position: int, source_digest: str, harness_digest: str) -> list[Record]:
    """The records of one run of all ranks: ok with samples, or failed with the reason.

    Args:
        outcome: the run.
        position: of its arm in the rotated order of its repeat.
        source_digest: of the tree that ran.
        harness_digest: of its harness.
    """
    trees = {"source_digest": source_digest, "harness_digest": harness_digest}
    cells = [_fields(outcome, tokens, position) | trees for tokens in outcome.settings.tokens]
    if outcome.failure:
        digest: dict[str, Any] = {"native_digest": "n0", "status": "failed", "fail_reason": outcome.failure}
        return [Record(**fields, **digest) for fields in cells]
    return [
        Record(**fields, **_observed(found), **_measured(found, fields["tokens"], outcome.settings))
        for fields in cells
        for _, found in sorted(outcome.ranks.items())
    ]


def _fields(outcome: Outcome, tokens: int, position: int) -> dict[str, Any]:
    settings = outcome.settings
    shared = dataclasses.asdict(dataclasses.replace(settings, arm="", repeats=1))
    plan = short_hash("p", shared)
    place = [plan, settings.arm, outcome.repeat, position]
    return {
        "key": short_hash("k", [*place, tokens]),
        "process_key": short_hash("q", place),
        "plan_hash": plan,
        "screen": SCREEN,
        "block": outcome.repeat,
        "row": 0,
        "pair": outcome.repeat,
        "position": position,
        "attempt": 1,
        "backend": "cuda",
        "machine": _machine(outcome),
        "tokens": tokens,
        "bucket": tokens,
        "collect": "copy",
        "mode": MODE,
        **_placement(outcome),
        "num_exchanges": settings.exchanges,
        "proof_exchanges": settings.proofs,
        "arm_index": position,
        "tree": "working",
        "slot": "slot0",
        "host": 0,
        **{name: getattr(settings, name) for name in ("layout", "hidden", "dtype", "routing", "experts", "top_k")},
        **{name: getattr(settings, name) for name in ("capacity", "transport_sms", "seed", "arm")},
    }


def _machine(outcome: Outcome) -> str:
    names = {str(found.get("device", "unknown")) for found in outcome.ranks.values()} or {"unknown"}
    return " and ".join(f"{Layout.parse(outcome.settings.layout).num_ranks} x {name}" for name in sorted(names))


def _placement(outcome: Outcome) -> dict[str, Any]:
    """How many ranks shared a GPU: they take the GPUs of the machine in turn. Nobody shares where no rank said."""
    num_ranks = Layout.parse(outcome.settings.layout).num_ranks
    gpus = next((found["gpus"] for found in outcome.ranks.values() if "gpus" in found), num_ranks)
    sharing = -(-num_ranks // gpus)
    return {"placement": "one rank a GPU" if sharing == 1 else f"{sharing} ranks a GPU", "ranks_per_gpu": sharing}


def _observed(found: dict[str, Any]) -> dict[str, Any]:
    identity = found["identity"]
    switches = ",".join(f"{name}={value}" for name, value in sorted(identity["switches"].items()))
    return {
        "native_digest": identity["digest"],
        "loaded_digest": identity["digest"],
        "loaded_protocol": identity["protocol"],
        "loaded_switches": switches,
        "registered_bytes": found["registered_bytes"],
    }


def _measured(found: dict[str, Any], tokens: int, settings: Settings) -> dict[str, Any]:
    samples = next(cell["samples_us"] for cell in found["cells"] if cell["tokens"] == tokens)
    return {
        "status": "ok",
        "rank": found["rank"],
        "role": found["role"],
        "samples_us": tuple(float(sample) for sample in samples),
        "latency_us": float(statistics.median(samples)),
        "reducer": REDUCER,
        "proofs_passed": settings.proofs,
    }
