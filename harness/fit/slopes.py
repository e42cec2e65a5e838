"""What each constant does to each cell, by simulating it with one constant changed, on the same routes."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from afdep import Machine
from harness.fit.cells import Runner, Samples, Task
from harness.fit.figures import Array
from harness.fit.settings import FitSettings, SearchSettings

UNIT_STEP = 1.0
"""What a constant that is 0 is set to: it has no logarithm, so its slope is per unit."""


@dataclass(frozen=True)
class Step:
    """A constant set beside its value.

    Args:
        name: the constant.
        stepped: its changed value.
        length: what log(us) is divided by: the step in log(constant), or the step itself from 0.
    """

    name: str
    stepped: float
    length: float


@dataclass(frozen=True)
class Slopes:
    """d log(us) / d log(constant), [constant, cell] or [constant, row, tokens, arm], and standard errors.

    The error is NaN where one exchange ran.
    """

    slope: Array
    error: Array


T = TypeVar("T")
Listener = Callable[[str, int, int], None]
"""Told the name of a constant whose cells are done, how many cells are done, and of how many."""


def step_of(settings: SearchSettings, name: str, value: float) -> Step:
    """The step of a constant that has this value."""
    if value == 0:
        return Step(name, UNIT_STEP, UNIT_STEP)
    factor = 1.0 + settings.step
    stepped = value / factor if name in settings.step_down else value * factor
    return Step(name, stepped, math.log(stepped / value))


def steps_of(
    settings: SearchSettings, machine: Machine, names: Sequence[str], values: Mapping[str, float]
) -> list[Step]:
    """The steps of constants of a machine with `values` in place of its own."""
    current = machine.constants() | dict(values)
    return [step_of(settings, name, current[name]) for name in names]


def exchanges_of(settings: FitSettings, tokens: int) -> int:
    """How many exchanges a slope of a cell with so many tokens is taken over."""
    return min(settings.most_exchanges, max(1, settings.route_tokens // max(1, tokens)))


def measure(
    settings: FitSettings,
    names: Sequence[str],
    rows: Sequence[int],
    values: Mapping[str, float],
    run: Runner,
    listen: Listener,
) -> Slopes:
    """Slopes of constants in the cells of rows, at the machine's constants with `values` in their place."""
    steps = steps_of(settings, settings.bench.machine, names, values)
    found = of_steps(steps, values, lambda change: _tasks(settings, rows, change), run, listen)
    shape = (len(names), len(rows), len(settings.screen.tokens), len(settings.screen.arms))
    return Slopes(found.slope.reshape(shape), found.error.reshape(shape))


def of_steps(
    steps: Sequence[Step],
    values: Mapping[str, float],
    tasks: Callable[[Mapping[str, float]], Sequence[T]],
    run: Callable[[Sequence[T]], Iterator[Samples]],
    listen: Listener = lambda *told: None,
) -> Slopes:
    """Slopes of stepped constants in cells, [constant, cell].

    Args:
        steps: one a constant.
        values: constants that differ from the machine's, stepped or not.
        tasks: of all cells, with constants that differ.
        run: runs tasks and yields their samples in order.
        listen: told of each constant.
    """
    changes = [values, *({**values, step.name: step.stepped} for step in steps)]
    before, *after = (tasks(change) for change in changes)
    count, samples = len(before), run([*before, *(task for one in after for task in one)])
    unchanged = _next(samples, count)
    found = []
    for index, step in enumerate(steps, 1):
        pairs = zip(unchanged, _next(samples, count), strict=True)
        found.append([slope_of(one, other, step.length) for one, other in pairs])
        listen(step.name, index * count, len(steps) * count)
    both = np.array(found).reshape(len(steps), count, 2)
    return Slopes(both[..., 0], both[..., 1])


def slope_of(before: Samples, after: Samples, length: float) -> tuple[float, float]:
    """The slope over ranks and exchanges, each against itself, and its standard error over exchanges."""
    each = np.log(np.array(after) / np.array(before)).mean(axis=0) / length
    error = float(each.std(ddof=1) / math.sqrt(len(each))) if len(each) > 1 else math.nan
    return float(each.mean()), error


def _tasks(settings: FitSettings, rows: Sequence[int], values: Mapping[str, float]) -> list[Task]:
    screen = settings.screen
    return [
        Task(settings.bench, screen.rows[row], tokens, arm.name, values, exchanges_of(settings, tokens))
        for row in rows
        for tokens in screen.tokens
        for arm in screen.arms
    ]


def _next(samples: Iterator[Samples], count: int) -> list[Samples]:
    return [next(samples) for _ in range(count)]
