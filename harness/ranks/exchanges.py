"""Round trips of planned cells: proved, timed, and judged. What every study does that times exchanges."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from harness.core.plan import Plan
from harness.ranks import loads
from harness.ranks.cells import Cell
from harness.records.envelope import OK, VOID, Envelope
from harness.study import Batch, Ended, Said


@dataclass(frozen=True, kw_only=True)
class RoundTrip(Envelope):
    """One rank of one cell of one process, or the whole cell where it is failed or void.

    Args:
        screen: what the plan measures, by name.
        layout, hidden, dtype, routing, tokens, bucket, num_experts, top_k, capacity, collect, mode, seed: of the cell.
        placement: which ranks share a GPU, in words.
        ranks_per_gpu: ranks on the fullest GPU.
        transport_sms: CTAs of the main kernels.
        num_exchanges: timed ones; on GPUs those of one replay.
        proof_exchanges: proved bit-exact before.
        proofs_passed: how many were.
        arm: canonical name.
        tree: working, or a commit.
        slot: that the process ran from.
        pair: repeat, from 0 in each row.
        position: of the process in its pair; 0 runs first.
        rank: null where the cell is failed or void.
        role: attention or ffn.
        latency_us: `reducer` of `samples_us`, of this rank; a cell is the maximum over its Attention ranks.
        reducer: what `latency_us` is of its samples, in words.
        samples_us: one round trip per timed exchange or replay, in order.
        registered_bytes: of registered memory of this rank.
        loaded_digest, loaded_protocol, loaded_switches: as the loaded library reports them.
        module_path: where afdep was loaded from, relative to the slot.
        safe_path: whether the starting folder was kept out of the search path.
        host_us: what one exchange took on the host until it was enqueued, where that was timed.
        host_calls: calls of the CUDA API an exchange, where they were counted.
        observed: what else the rank saw of itself, as JSON.
    """

    table: ClassVar[str] = "round_trips"
    positive: ClassVar[tuple[str, ...]] = ("latency_us", "samples_us")

    screen: str = ""
    layout: str = ""
    hidden: int = 0
    dtype: str = ""
    routing: str = ""
    tokens: int = 0
    bucket: int = 0
    num_experts: int = 0
    top_k: int = 0
    capacity: int = 0
    collect: str = ""
    mode: str = ""
    seed: int = 0
    placement: str = ""
    ranks_per_gpu: int = 1
    transport_sms: int = 0
    num_exchanges: int = 0
    proof_exchanges: int = 0
    proofs_passed: int | None = None
    arm: str = ""
    tree: str = ""
    slot: str = ""
    pair: int = 0
    position: int = 0
    rank: int | None = None
    role: str | None = None
    latency_us: float | None = None
    reducer: str | None = None
    samples_us: tuple[float, ...] | None = None
    registered_bytes: int | None = None
    loaded_digest: str | None = None
    loaded_protocol: str | None = None
    loaded_switches: str | None = None
    module_path: str | None = None
    safe_path: bool | None = None
    host_us: float | None = None
    host_calls: float | None = None
    observed: str | None = None


def run(cells: Sequence[Cell], group: Any) -> Iterator[Said]:
    """Prove and time cells of one arm and row, in order, on what is opened once for all of them."""
    first = cells[0]
    end = group.open(first)
    trace = group.trace(first.row)
    group.turn()
    for index, cell in enumerate(cells):
        proofs = cell.backend.proof_exchanges
        end.prove(loads.make(cell.exchange, cell.row, cell.tokens, proofs, trace), cell.bucket)
        timed = loads.make(cell.exchange, cell.row, cell.tokens, end.loads, trace)
        measured = end.time(timed, cell.bucket)
        samples = {str(rank): list(samples) for rank, samples in measured.samples_us.items()}
        facts = {
            "samples_us": samples,
            "proofs": proofs,
            "least_bytes": loads.least_bytes(cell.row, timed),
            "exchanges": measured.exchanges,
            "host_us": measured.host_us,
            "calls": measured.calls,
        }
        yield Said(index, facts)


def judge(plan: Plan, batch: Batch, cell: Cell, ended: Ended, row: RoundTrip) -> list[RoundTrip]:
    """The rows of a cell: one for each rank, or one where it does not count.

    Args:
        plan: of the cell.
        batch: that ran it.
        cell: the cell.
        ended: what was said of it.
        row: with what the study knows of the cell beside the cell itself.
    """
    slot = len(plan.trees) - 1 - batch.tree if batch.swapped else batch.tree
    row = replace(row, **columns(cell), tree=plan.trees[batch.tree].name, slot=f"slot{slot}")
    if ended.status != OK:
        opened = ended.opened.get(0, {}).get("loaded", {})
        return [replace(row, **opened, status=ended.status, reason=ended.reason)]
    rows = [
        _of_rank(row, int(rank), samples, said, ended.opened.get(process, {}))
        for process, said in sorted(ended.said.items())
        for rank, samples in said["samples_us"].items()
    ]
    least = min(int(said["least_bytes"]) for said in ended.said.values())
    assert cell.backend.floor is not None
    if (reason := cell.backend.floor.impossible(least, latency_us(rows))) is not None:
        rows = [replace(one, status=VOID, reason=reason) for one in rows]
    return rows


def latency_us(ranks: Sequence[RoundTrip]) -> float:
    """A cell of one process: the maximum over its Attention ranks of the per-rank medians."""
    return max(one.latency_us for one in ranks if one.role == "attention" and one.latency_us is not None)


def kind(row: RoundTrip) -> str:
    """What kind of figure a row holds: of different kinds none stands beside another without saying so."""
    if row.backend == "sim":
        return "simulated"
    return "measured, co-located" if row.ranks_per_gpu > 1 else "measured"


def figure(rows: Sequence[RoundTrip]) -> str:
    """A cell that counts, in words."""
    return f"{latency_us(rows):8.1f} us"


def columns(cell: Cell) -> dict[str, Any]:
    """Columns that the cell decides."""
    own = {one.name for one in fields(RoundTrip)}
    parts = {**vars(cell.row), **vars(cell.exchange), **vars(cell.backend)}
    derived = {"arm": cell.arm, "tokens": cell.tokens, "bucket": cell.bucket, "placement": cell.backend.placement}
    return {name: held for name, held in (parts | derived).items() if name in own}


def _of_rank(
    row: RoundTrip, rank: int, samples: Sequence[float], said: Mapping[str, Any], opened: Mapping[str, Any]
) -> RoundTrip:
    """The row of one rank, by what its process said of the cell and of itself."""
    calls = said["calls"]
    ours = ("loaded", "roles", "registered_bytes", "ranks_per_gpu", "affinity", "code_digest", "compiler")
    observed = {name: held for name, held in opened.items() if name not in ours}
    observed |= {"exchanges": said["exchanges"], "calls": calls}
    return replace(
        row,
        rank=rank,
        role=str(opened["roles"][str(rank)]),
        samples_us=tuple(float(one) for one in samples),
        latency_us=float(statistics.median(samples)),
        reducer="median of samples",
        proofs_passed=int(said["proofs"]),
        registered_bytes=opened.get("registered_bytes"),
        **opened["loaded"],
        host_us=None if said["host_us"] is None else float(said["host_us"]),
        host_calls=None if calls is None else float(sum(calls.values())),
        observed=json.dumps(observed, sort_keys=True),
    )
