"""A figure that no machine can give is void: two hops of a link take their time, and so does what it carries."""

import numpy as np
import pytest

from afdep import Load, routing
from harness.screen_config import Floor, Row
from harness.plausibility import impossible

FLOOR = Floor(one_hop_ns=500.0, link_gb_per_s=343.0)
ROW = Row("1A1F", 2048, "bf16", "random", None, 128)
TOKENS = 2048
LINK_US = TOKENS * 4096 / 343e3


def load(tokens: int, row: Row = ROW, sources: int = 1, kind: str = "random") -> Load:
    ffn_ranks = int(row.layout[2])
    return Load([routing.make(kind, tokens, row.experts, 8, s, num_ffn_ranks=ffn_ranks) for s in range(sources)])


@pytest.mark.parametrize(("us", "possible"), [(0.99, False), (1.01, True)])
def test_a_round_trip_takes_two_hops(us, possible):
    assert (impossible(FLOOR, ROW, [load(1)], us) is None) == possible


@pytest.mark.parametrize(("factor", "possible"), [(0.99, False), (1.01, True)])
def test_a_link_carries_no_more_than_it_can(factor, possible):
    reason = impossible(FLOOR, ROW, [load(TOKENS)], LINK_US * factor)
    assert (reason is None) == possible
    assert possible or "GB/s one way over a link of 343 GB/s" in reason


def test_a_token_counts_once_for_each_ffn_rank_it_names():
    row = Row("1A2F", 2048, "bf16", "spread", None, 128)
    both, one = load(TOKENS, row, kind="spread"), load(TOKENS, row, kind="all-to-one")
    assert impossible(FLOOR, row, [both], LINK_US * 1.5) is not None
    assert impossible(FLOOR, row, [one], LINK_US * 1.5) is None


def test_the_busiest_ffn_rank_takes_the_rows_of_every_source():
    row = Row("2A1F", 2048, "bf16", "random", None, 128)
    assert impossible(FLOOR, row, [load(TOKENS, row, sources=2)], LINK_US * 1.5) is not None


def test_the_lightest_exchange_and_no_route_at_all_bound_nothing_else():
    nothing = Load([np.full((TOKENS, 8), -1)])
    assert impossible(FLOOR, ROW, [load(TOKENS), nothing], 1.01) is None


def test_a_simulated_figure_that_no_link_gives_is_void_and_kept(bench):
    wrong = {"arm": "afdep@bd4db4da", "tokens": 2048, "do": "take", "us": 9.0}
    bench.behave(wrong)
    assert bench.screen("tokens=[2048]") == 3
    (void,) = {one.void_reason for one in bench.records() if one.status == "void"}
    assert "GB/s one way over a link of 307 GB/s" in void
    assert all(one.latency_us is not None for one in bench.records())
