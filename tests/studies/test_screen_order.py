"""Pairs stay whole, arms rotate through positions, and trees swap slots in half of the pairs."""

import dataclasses
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from harness.studies.screen.program import TWO_TREES, ArmChoice, blocks
from tests.harness.samples import BACKEND, TABLE, settings

ARMS = st.integers(2, 4)
ROUNDS = st.integers(1, 4)
ROWS = st.integers(1, 3)


class Process(NamedTuple):
    """One start of a plan."""

    block: int
    row: int
    arm: int
    pair: int
    position: int
    swapped: bool


def processes(rows: int, arms: int, trees: int, pairs: int) -> list[Process]:
    choices = tuple(ArmChoice(f"arm{index}", min(index, trees - 1)) for index in range(arms))
    backend = dataclasses.replace(BACKEND, pairs=pairs)
    wanted = dataclasses.replace(settings(rows=TABLE[:rows]), arms=choices, num_trees=trees, backend=backend)
    found = []
    for number, block in enumerate(blocks(wanted, ())):
        assert block.on_loss == "void"
        for batch in block.batches:
            first, *others = batch.trials
            place = (first.row, first.arm, first.pair, first.position)
            assert [trial.tokens for trial in batch.trials] == list(wanted.tokens)
            assert all((one.row, one.arm, one.pair, one.position) == place for one in others)
            assert (batch.pair, batch.layout, batch.tree) == (
                first.pair,
                TABLE[first.row].layout,
                choices[first.arm].tree,
            )
            found.append(Process(number, *place, batch.swapped))
    return found


@given(rows=ROWS, arms=ARMS, rounds=ROUNDS)
def test_every_arm_runs_equally_often_in_every_position(rows, arms, rounds):
    counts = Counter((one.arm, one.position) for one in processes(rows, arms, 1, 2 * arms * rounds))
    assert set(counts.values()) == {2 * rows * rounds}
    assert len(counts) == arms * arms


@given(arms=ARMS, rounds=ROUNDS)
def test_every_two_pairs_put_no_arm_before_another(arms, rounds):
    planned = processes(1, arms, 1, 2 * rounds)
    for number in range(rounds):
        two = [one for one in planned if one.pair // 2 == number]
        assert {sum(one.position for one in two if one.arm == arm) for arm in range(arms)} == {arms - 1}


@given(rows=ROWS, arms=ARMS, pairs=st.integers(1, 9), trees=st.integers(1, 2))
def test_each_process_of_a_screen_is_planned_once(rows, arms, pairs, trees):
    planned = [(one.row, one.pair, one.arm) for one in processes(rows, arms, trees, pairs)]
    assert sorted(planned) == [(r, p, a) for r in range(rows) for p in range(pairs) for a in range(arms)]


@given(rows=ROWS, arms=ARMS, pairs=st.integers(1, 9), trees=st.integers(1, 2))
def test_the_arms_of_a_pair_run_back_to_back_in_one_block(rows, arms, pairs, trees):
    for first, second in pairwise(processes(rows, arms, trees, pairs)):
        if second.position:
            assert first.position == second.position - 1
            same = ("row", "pair", "block", "swapped")
            assert [getattr(first, name) for name in same] == [getattr(second, name) for name in same]


@given(rows=ROWS, blocks=st.integers(1, 3))
def test_a_block_of_two_arms_is_both_orders_straight_and_swapped(rows, blocks):
    planned = processes(rows, 2, 2, TWO_TREES * blocks)
    kinds = Counter((one.block, one.arm, one.swapped) for one in planned if one.position == 0)
    assert set(kinds.values()) == {1}
    assert len(kinds) == rows * blocks * 4


@given(rows=ROWS, arms=ARMS, pairs=st.integers(1, 9))
def test_one_tree_has_nothing_to_swap(rows, arms, pairs):
    assert not any(one.swapped for one in processes(rows, arms, 1, pairs))


def test_a_screen_has_one_round():
    assert blocks(settings(), [object()]) == ()
