"""Fewer trials than every combination: covering designs, and each case once on each layout."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

COVER = "cover"
"""The case of trials that are a covering design."""

Point = dict[str, Any]
_Pair = tuple[tuple[str, Any], tuple[str, Any]]
_Words = tuple[str, ...]


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
        for pair in combinations([(axis, point[axis]) for axis in axes], 2):
            missing.pop(pair, None)
        points.append({axis: point[axis] for axis in axes})
    return points


def _all_pairs(axes: Mapping[str, Sequence[Any]]) -> list[_Pair]:
    return [((a, x), (b, y)) for a, b in combinations(axes, 2) for x in axes[a] for y in axes[b]]


def _best(axis: str, values: Sequence[Any], point: Point, missing: Mapping[_Pair, None], turn: int) -> Any:
    """The value with the most missing pairs; equal ones take turns from point to point."""
    rotated = [(axis, value) for value in [*values[turn % len(values) :], *values[: turn % len(values)]]]
    gains = {new: sum((new, old) in missing or (old, new) in missing for old in point.items()) for new in rotated}
    return max(gains, key=gains.__getitem__)[1]


def pairwise(trials: Sequence[Any]) -> list[Any]:
    """One trial of each case on each layout, and those of covering designs, in order.

    Greedy: a case takes, layout by layout, the trial with the most pairs of values that the case has nowhere yet, and
    among these the one with the most that the layout has nowhere yet. The same trials give the same choice.
    """
    groups: dict[_Words, list[Any]] = {}
    for trial in _special(trials):
        groups.setdefault((trial.case, trial.layout), []).append(trial)
    chosen = set(trials) - set(_special(trials))
    seen: set[_Words] = set()
    for own in groups.values():
        best = max(own, key=lambda one: [len({*_of(name, one)} - seen) for name in (one.case, one.layout)])
        seen |= {*_of(best.case, best), *_of(best.layout, best)}
        chosen.add(best)
    return [trial for trial in trials if trial in chosen]


def left_out(declared: Sequence[Any], chosen: Sequence[Any]) -> dict[str, list[str]]:
    """By case, pairs of values that stand together in declared trials but in no chosen one."""
    reached = _pairs(chosen)
    missing: dict[str, list[str]] = {}
    for case, *pair in _pairs(declared):
        if (case, *pair) not in reached:
            missing.setdefault(case, []).append(" ".join(pair))
    return missing


def _special(trials: Iterable[Any]) -> list[Any]:
    """Those of cases, which are no covering design."""
    return [trial for trial in trials if trial.case != COVER]


def _of(name: str, trial: Any) -> list[_Words]:
    """A trial's pairs of values, under a name."""
    return [(name, *pair) for pair in combinations((trial.arm, trial.dtype, trial.mode), 2)]


def _pairs(trials: Iterable[Any]) -> dict[_Words, None]:
    """Pairs of values of each case, and each case on each layout."""
    own = _special(trials)
    return dict.fromkeys(pair for trial in own for pair in [*_of(trial.case, trial), (trial.case, trial.layout)])
