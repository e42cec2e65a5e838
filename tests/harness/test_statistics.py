"""Properties of the paired statistics."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ranks.exchanges import latency_us
from harness.studies.screen.findings import Comparison, Pair
from harness.studies.screen.tables import median_and_worst, rms_relative_error_pct
from tests.harness.samples import record

US = st.floats(0.5, 1e4)
PAIRS = st.lists(st.builds(Pair, US, US), min_size=1, max_size=12)


def change_pct(pairs):
    return Comparison(tuple(pairs)).change_pct


def num_agreeing(pairs):
    return Comparison(tuple(pairs)).num_agreeing


@given(US, st.integers(1, 8))
def test_equal_arms_do_not_differ(latency_us, repeats):
    assert change_pct([Pair(latency_us, latency_us)] * repeats) == 0.0


@given(US, st.floats(-90, 200))
def test_a_single_pair_is_its_own_ratio(baseline_us, percent):
    assert change_pct([Pair(baseline_us, baseline_us * (1 + percent / 100))]) == pytest.approx(percent, abs=1e-6)


@given(PAIRS)
def test_swapping_the_arms_inverts_the_ratio(pairs):
    forward, backward = change_pct(pairs), change_pct([Pair(pair.candidate_us, pair.baseline_us) for pair in pairs])
    assert (1 + forward / 100) * (1 + backward / 100) == pytest.approx(1.0)


@given(PAIRS, st.floats(0.01, 100))
def test_a_slower_clock_changes_no_change(pairs, factor):
    scaled = [Pair(pair.baseline_us * factor, pair.candidate_us * factor) for pair in pairs]
    assert change_pct(scaled) == pytest.approx(change_pct(pairs), rel=1e-6, abs=1e-6)


@given(PAIRS)
def test_the_mean_lies_between_the_pairs(pairs):
    own = [change_pct([pair]) for pair in pairs]
    assert min(own) - 1e-6 <= change_pct(pairs) <= max(own) * (1 + 1e-9) + 1e-6


@given(PAIRS)
def test_the_order_of_repeats_does_not_matter(pairs):
    assert change_pct(pairs) == change_pct(pairs[::-1])
    assert num_agreeing(pairs) == num_agreeing(pairs[::-1])


@given(PAIRS)
def test_all_agree_exactly_when_all_have_one_sign(pairs):
    signs = {math.copysign(1, pair.log_ratio) if pair.log_ratio else 0 for pair in pairs}
    assert (num_agreeing(pairs) == len(pairs)) == (len(signs) == 1)


def test_repeats_that_do_not_differ_at_all_agree():
    assert num_agreeing([Pair(20.0, 20.0)] * 3) == 3
    assert num_agreeing([Pair(20.0, 20.0), Pair(20.0, 19.0)]) == 1


def test_the_mean_is_geometric():
    assert change_pct([Pair(1.0, 2.0), Pair(1.0, 0.5)]) == pytest.approx(0.0)


@given(st.lists(US, min_size=1, max_size=8))
def test_a_cell_is_its_slowest_attention_rank(medians_us):
    ranks = [record(rank=1 + index, latency_us=us) for index, us in enumerate(medians_us)]
    slow = record(rank=0, role="ffn", latency_us=2e4)
    assert latency_us([slow, *ranks]) == max(medians_us)


@given(st.lists(US, min_size=1, max_size=8), st.floats(-0.5, 0.5))
def test_a_uniform_error_is_its_own_rms(references, error):
    values = [reference * (1 + error) for reference in references]
    assert rms_relative_error_pct(values, references) == pytest.approx(abs(error) * 100, abs=1e-6)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=9))
def test_the_worst_difference_keeps_its_sign(differences):
    middle, worst = median_and_worst(differences)
    assert worst in differences
    assert abs(worst) == max(map(abs, differences))
    assert min(differences) <= middle <= max(differences)
