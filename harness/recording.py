"""From plan, process and cell to records: the fields that do not depend on what happened, and the three endings."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.plan import Cell, Plan, Process
from harness.records import Record
from harness.statistics import cell_latency_us

REDUCER = "median of samples"


@dataclass(frozen=True)
class Seat:
    """A process of a plan on one attempt.

    Args:
        plan: the plan.
        process: one of its processes.
        attempt: 1 for the first try.
        host: ordinal of the host.
    """

    plan: Plan
    process: Process
    attempt: int
    host: int

    def fields(self, cell: Cell) -> dict[str, Any]:
        """Every record field that the plan decides."""
        plan, process, row = self.plan, self.process, self.plan.rows[self.process.row]
        arm, tree = plan.arms[process.arm], plan.tree_of(process)
        return {
            "key": plan.cell_key(process, cell),
            "process_key": plan.process_key(process),
            "plan_hash": plan.plan_hash,
            "screen": plan.screen,
            "block": process.block,
            "row": process.row,
            "pair": process.pair,
            "position": process.position,
            "attempt": self.attempt,
            "host": self.host,
            "layout": row.layout,
            "hidden": row.hidden,
            "dtype": row.dtype,
            "routing": row.routing,
            "experts": row.experts,
            "tokens": cell.tokens,
            "bucket": cell.bucket,
            "arm": arm.name,
            "arm_index": process.arm,
            "tree": tree.name,
            "slot": f"slot{plan.slot_of(process)}",
            "native_digest": arm.identity.digest,
            "source_digest": tree.source_digest,
            "harness_digest": plan.harness_digest,
            **_shared_fields(plan),
        }

    def failed(self, cells: Sequence[Cell], reason: str, **observed: Any) -> list[Record]:
        """One failed record per cell."""
        return [Record(**self.fields(cell), **observed, status="failed", fail_reason=reason) for cell in cells]

    def void(self, cells: Sequence[Cell], reason: str, **observed: Any) -> list[Record]:
        """One void record per cell."""
        return [Record(**self.fields(cell), **observed, status="void", void_reason=reason) for cell in cells]

    def measured(
        self, cell: Cell, samples_us: Mapping[int, Sequence[float]], roles: Mapping[int, str], **observed: Any
    ) -> list[Record]:
        """One record per rank.

        Args:
            cell: the cell.
            samples_us: round trips by rank, one per timed exchange or replay.
            roles: role by rank.
            observed: what the process saw of itself, as record fields.
        """
        return [
            Record(
                **self.fields(cell),
                **observed,
                status="ok",
                rank=rank,
                role=roles[rank],
                samples_us=tuple(float(sample) for sample in samples),
                latency_us=float(statistics.median(samples)),
                reducer=REDUCER,
            )
            for rank, samples in sorted(samples_us.items())
        ]

    def voided(self, records: Sequence[Record], reason: str) -> list[Record]:
        """The records of a measured cell whose figure does not count; they keep it."""
        return [replace(record, status="void", void_reason=reason) for record in records]


def latency_us(ranks: Sequence[Record]) -> float:
    """A cell of one process, by the records of its ranks; see `statistics.cell_latency_us`."""
    return cell_latency_us(one.latency_us for one in ranks if one.role == "attention" and one.latency_us is not None)


def _shared_fields(plan: Plan) -> dict[str, Any]:
    exchange, backend = plan.exchange, plan.backend
    return {
        "backend": backend.name,
        "machine": backend.machine,
        "num_exchanges": backend.num_exchanges,
        "proof_exchanges": backend.proof_exchanges,
        "ranks_per_gpu": backend.ranks_per_gpu,
        "placement": backend.placement,
        "top_k": exchange.top_k,
        "capacity": exchange.capacity,
        "collect": exchange.collect,
        "mode": exchange.mode,
        "transport_sms": exchange.transport_sms,
        "seed": exchange.seed,
    }
