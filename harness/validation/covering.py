"""Covering designs: few combinations in which each pair of values of two axes stands together at least once."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

Point = dict[str, Any]
_Pair = tuple[tuple[str, Any], tuple[str, Any]]


def covering(axes: Mapping[str, Sequence[Any]]) -> list[Point]:
    """Points of the product of all axes, such that every pair of values of any two axes is in one of them.

    Greedy: each point starts with a pair that none has yet, and takes, axis by axis, the value that adds the most
    missing pairs. The same axes give the same points.
    """
    missing = dict.fromkeys(_all_pairs(axes))
    points: list[Point] = []
    while missing:
        point: Point = dict(next(iter(missing)))
        for axis in axes:
            if axis not in point:
                point[axis] = _best(axis, axes[axis], point, missing, len(points))
        for pair in pairs(point, axes):
            missing.pop(pair, None)
        points.append({axis: point[axis] for axis in axes})
    return points


def pairs(point: Point, axes: Mapping[str, Sequence[Any]]) -> list[_Pair]:
    """The pairs of values of a point, in the order of the axes."""
    return list(combinations([(axis, point[axis]) for axis in axes if axis in point], 2))


def _all_pairs(axes: Mapping[str, Sequence[Any]]) -> list[_Pair]:
    return [((a, x), (b, y)) for a, b in combinations(axes, 2) for x in axes[a] for y in axes[b]]


def _best(axis: str, values: Sequence[Any], point: Point, missing: Mapping[_Pair, None], turn: int) -> Any:
    """The value with the most missing pairs; equal ones take turns from point to point."""
    rotated = [*values[turn % len(values) :], *values[: turn % len(values)]]
    return max(rotated, key=lambda value: sum(_is_missing((axis, value), one, missing) for one in point.items()))


def _is_missing(new: tuple[str, Any], old: tuple[str, Any], missing: Mapping[_Pair, None]) -> bool:
    return (new, old) in missing or (old, new) in missing
