"""Ready-made records, plans and surroundings for tests that run no process."""

from typing import Any

from harness.screen_config import Backend, Exchange, Row
from harness.identity import Identity
from harness.order import processes
from harness.plan import PLAN_VERSION, Cell, Plan, PlannedArm, Tree
from harness.records import Record

BACKEND = Backend("sim", "h100-nvlink", True, 1, 10, 1, 1, "one rank per GPU")
EXCHANGE = Exchange(8, 2048, None, 24, "copy", "graph", 0)


def record(**changes: Any) -> Record:
    """An ok record of one Attention rank, with some fields changed."""
    fields: dict[str, Any] = {
        "key": "k1", "process_key": "q1", "plan_hash": "p1", "screen": "main", "block": 0, "row": 0, "pair": 0,
        "position": 0, "attempt": 1, "backend": "sim", "machine": "h100-nvlink", "layout": "1A1F", "hidden": 2048,
        "dtype": "bf16", "routing": "random", "tokens": 8, "bucket": 8, "experts": 128, "top_k": 8, "capacity": 2048,
        "collect": "copy", "mode": "graph", "placement": "one rank per GPU", "ranks_per_gpu": 1, "transport_sms": 24,
        "num_exchanges": 3, "proof_exchanges": 1, "seed": 0, "arm": "m2n", "arm_index": 0, "tree": "working",
        "slot": "slot0", "native_digest": "n12345678", "source_digest": "t1", "harness_digest": "h1", "host": 0,
        "status": "ok", "rank": 1, "role": "attention", "latency_us": 30.0, "samples_us": (30.0, 30.0),
    }  # fmt: skip
    return Record(**(fields | changes))


def plan(
    *, rows: int = 1, pairs: int = 1, tokens: tuple[int, ...] = (1, 8), declared_aa: bool = False, **changes: Any
) -> Plan:
    """A plan of two arms on one tree; the main table's first rows."""
    table = [("2A2F", 2048, 128), ("2A2F", 4096, 128), ("3A1F", 2048, 128), ("1A3F", 2048, 96)][:rows]
    arms = (
        PlannedArm("m2n", 0, Identity("n12345678", "m2n", ())),
        PlannedArm("afdep@bd4db4da", 0, Identity("n12345678", "afdep", (("AFDEP_UNION_REDUCE_PREFIX", 1),))),
    )
    fields: dict[str, Any] = {
        "version": PLAN_VERSION,
        "screen": "main",
        "published": "result-main",
        "declared_aa": declared_aa,
        "backend": Backend(**{**BACKEND.__dict__, "pairs": pairs}),
        "exchange": EXCHANGE,
        "harness_digest": "h1",
        "trees": (Tree("working", "n12345678", "t1"),),
        "arms": arms,
        "rows": tuple(Row(layout, hidden, "bf16", "random", None, experts) for layout, hidden, experts in table),
        "cells": tuple(Cell(one, one) for one in tokens),
        "processes": processes(rows, len(arms), 1, pairs),
    }
    return Plan(**(fields | changes))
