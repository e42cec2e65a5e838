"""A figure that no machine can give is void: two hops of a link take their time, and so does what it carries."""

import dataclasses

import numpy as np
import pytest

from afdep import Load, routing
from harness.ranks.loads import least_bytes
from tests.harness.samples import FLOOR, ROW, on_gpus, plan, records

TOKENS = 2048
LINK_US = TOKENS * 4096 / 343e3


def load(tokens: int, row=ROW, sources: int = 1, kind: str = "random") -> Load:
    ffn_ranks = int(row.layout[2])
    return Load([routing.make(kind, tokens, row.num_experts, 8, s, num_ffn_ranks=ffn_ranks) for s in range(sources)])


def reason(row, loads, us):
    return FLOOR.impossible(least_bytes(row, loads), us)


@pytest.mark.parametrize(("us", "possible"), [(0.99, False), (1.01, True)])
def test_a_round_trip_takes_two_hops(us, possible):
    assert (reason(ROW, [load(1)], us) is None) == possible


@pytest.mark.parametrize(("factor", "possible"), [(0.99, False), (1.01, True)])
def test_a_link_carries_no_more_than_it_can(factor, possible):
    found = reason(ROW, [load(TOKENS)], LINK_US * factor)
    assert (found is None) == possible
    assert possible or "GB/s one way over a link of 343 GB/s" in found


def test_a_token_counts_once_for_each_ffn_rank_it_names():
    row = dataclasses.replace(ROW, layout="1A2F")
    both, one = load(TOKENS, row, kind="spread"), load(TOKENS, row, kind="all-to-one")
    assert reason(row, [both], LINK_US * 1.5) is not None
    assert reason(row, [one], LINK_US * 1.5) is None


def test_the_busiest_ffn_rank_takes_the_rows_of_every_source():
    row = dataclasses.replace(ROW, layout="2A1F")
    assert reason(row, [load(TOKENS, row, sources=2)], LINK_US * 1.5) is not None


def test_the_lightest_exchange_and_no_route_at_all_bound_nothing_else():
    nothing = Load([np.full((TOKENS, 8), -1)])
    assert reason(ROW, [load(TOKENS), nothing], 1.01) is None
    assert least_bytes(ROW, [load(0)]) == 0


def test_scale_words_travel_as_well():
    assert least_bytes(dataclasses.replace(ROW, dtype="fp8"), [load(1)]) == 2048 + 2048 // 128 * 4


@pytest.mark.parametrize("backend", ["sim", "cuda"])
def test_a_figure_below_two_hops_is_void_and_kept(backend):
    own = plan(rows=(ROW,), tokens=(8,), **({} if backend == "sim" else {"backend": on_gpus()}))
    rows = records(own, lambda batch, trial: 30.0 if trial.arm == 0 else 0.75)
    voids = [row for row in rows if row.status == "void"]
    assert {row.arm for row in voids} == {own.settings.arms[1].name}
    assert all(row.reason.startswith("impossible: 0.750 us for a round trip") for row in voids)
    assert all(row.latency_us is not None and row.samples_us is not None for row in voids)


def test_a_simulated_figure_that_no_link_gives_is_void_and_kept(bench):
    bench.behave({"arm": "afdep@bd4db4da", "tokens": 2048, "do": "take", "us": 9.0})
    assert bench.screen("tokens=[2048]") == 3
    (void,) = {one.reason for one in bench.records() if one.status == "void"}
    assert "GB/s one way over a link of 307 GB/s" in void
    assert all(one.latency_us is not None for one in bench.records())


@pytest.mark.parametrize("us", [float("nan"), -1.0], ids=["nan", "zero"])
def test_a_figure_that_is_none_is_void_and_the_next_run_measures_it_again(bench, us):
    bench.behave({"arm": "afdep@bd4db4da", "tokens": 8, "do": "take", "us": us})
    assert bench.screen("tokens=[8]") == 3
    found = {one.arm: (one.status, one.samples_us) for one in bench.records() if one.rank != 0}
    assert found["m2n"][0] == "ok"
    assert found["afdep@bd4db4da"] == ("void", None)
    assert any("void: record field latency_us: expected figures above zero" in line for line in bench.lines)
    bench.behave()
    assert bench.screen("tokens=[8]") == 0
