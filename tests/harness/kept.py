"""Kept simulated figures: their comparison with the published table, and how to simulate a cell again."""

from statistics import median

from afdep import Layout, World
from harness import reports
from harness.compose import compose
from harness.selection import select
from harness.simulated import prove_and_time
from harness.workspace import REPOSITORY


def page(folder):
    """The report on the plan kept in a folder of records."""
    return reports.page(select(compose("report", [f"source=records/{folder}"]), REPOSITORY))


def comparison(folder):
    """The comparison of the plan kept in a folder of records with the published table."""
    (beside,) = page(folder).besides
    return beside


def shared(beside):
    """Each cell's own and published comparison, with its row."""
    for index, row in enumerate(beside.plan.rows):
        for cell in beside.plan.cells:
            yield row, beside.own(index, cell.tokens), beside.other(row, cell.tokens)


def simulate(plan, row, arm, cells):
    """The cells as a worker measures them: the median over exchanges, then the maximum over Attention ranks."""
    shape = {"hidden": row.hidden, "num_experts": row.experts, "arm": arm, "transport_sms": plan.exchange.transport_sms}
    limits = {"top_k": plan.exchange.top_k, "capacity": plan.exchange.capacity, "dispatch_dtype": row.dtype}
    settings = {**shape, **limits, "mode": "time", "machine": plan.backend.machine, "seed": plan.exchange.seed}
    timings = [prove_and_time(plan, row, lambda: World(row.layout, **settings), cell).per_rank_us for cell in cells]
    attention = Layout.parse(row.layout).attention_rank_ids
    return [max(median(times[rank]) for rank in attention) for times in timings]
