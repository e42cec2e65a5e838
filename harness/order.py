"""The order of a plan: pairs in blocks, arms rotated, trees swapped between slots in half of the pairs."""

from collections.abc import Iterator

from harness.plan import Process

PAIRS_PER_BLOCK = 4
"""A whole block is {AB, BA} x {straight, swapped}."""


def processes(num_rows: int, num_arms: int, num_trees: int, pairs: int) -> tuple[Process, ...]:
    """Every process of a screen, in the order it runs.

    Row by row, pair by pair; the arms of a pair run back to back, rotated by one from pair to pair, so that in every
    `num_arms` pairs each arm takes each position once.
    """
    blocks_per_row = -(-pairs // PAIRS_PER_BLOCK)
    return tuple(
        Process(
            row * blocks_per_row + pair // PAIRS_PER_BLOCK,
            row,
            pair,
            position,
            arm,
            _swapped(pair, num_arms, num_trees),
        )
        for row in range(num_rows)
        for pair in range(pairs)
        for position, arm in _rotated(num_arms, pair)
    )


def _rotated(num_arms: int, pair: int) -> Iterator[tuple[int, int]]:
    return ((position, (position + pair) % num_arms) for position in range(num_arms))


def _swapped(pair: int, num_arms: int, num_trees: int) -> bool:
    """Each half of the rotations runs straight, the other swapped; one tree has nothing to swap."""
    return num_trees == 2 and pair // num_arms % 2 == 1
