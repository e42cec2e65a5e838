"""The order of a plan: pairs in blocks, arms in both orders, trees swapped between slots in half of the pairs."""

from collections.abc import Iterator

from harness.plan import Process

PAIRS_PER_BLOCK = 4
"""A whole block is {AB, BA} x {straight, swapped}."""


def processes(num_rows: int, num_arms: int, num_trees: int, pairs: int) -> tuple[Process, ...]:
    """Every process of a screen, in the order it runs.

    Row by row, pair by pair; the arms of a pair run back to back. Every second pair runs in the reverse order of the
    one before, so that a drift favours no arm in any two pairs; two pairs on the order is rotated by two, so that in
    `2 * num_arms` pairs each arm takes each position twice.
    """
    blocks_per_row = -(-pairs // PAIRS_PER_BLOCK)
    return tuple(
        Process(
            row * blocks_per_row + pair // PAIRS_PER_BLOCK,
            row,
            pair,
            position,
            arm,
            _swapped(pair, num_trees),
        )
        for row in range(num_rows)
        for pair in range(pairs)
        for position, arm in _arms(num_arms, pair)
    )


def _arms(num_arms: int, pair: int) -> Iterator[tuple[int, int]]:
    forward = [(position + pair - pair % 2) % num_arms for position in range(num_arms)]
    return enumerate(reversed(forward) if pair % 2 else forward)


def _swapped(pair: int, num_trees: int) -> bool:
    """Two pairs run straight, the next two swapped; one tree has nothing to swap."""
    return num_trees == 2 and pair // 2 % 2 == 1
