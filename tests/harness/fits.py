"""Fits for the tests: settings of a few cells, and a runner whose cells are powers of the constants, known exactly."""

import dataclasses
import math
import shutil
from datetime import UTC, datetime
from functools import cache

from harness.compose import compose, load_options
from harness.fit.settings import Free, fit_settings
from harness.published import PublishedCell
from harness.surroundings import Surroundings
from harness.workspace import REPOSITORY

AROUND = Surroundings(REPOSITORY, {}, float, lambda: datetime(2026, 1, 2, tzinfo=UTC), lambda line: None)


def settings(*texts, free=None, repository=REPOSITORY):
    """Settings of the verb, with these constants free: bounds a factor of three either way."""
    config = compose("fit", ["jobs=1", "fit.pull_pct=0", *texts], repository / "conf")
    read = fit_settings(config, load_options("routing", repository / "conf"), repository)
    values = read.bench.machine.constants()
    chosen = read.free if free is None else tuple(Free(name, values[name] / 3, values[name] * 3) for name in free)
    return dataclasses.replace(read, free=chosen)


@cache
def two_rows():
    """Two rows of the table, fitted on the first alone, six tokens."""
    return settings("layout=[2A2F,3A1F]", "hidden=2048", "dtype=bf16", "routing=random")


def with_published(read, us_of):
    """The settings with other published figures: `us_of(point)` gives both arms' round trips."""
    pairs = {point: us_of(point) for point in read.table.cells}
    cells = {point: PublishedCell(a, b, 100 * (b / a - 1)) for point, (a, b) in pairs.items()}
    return dataclasses.replace(read, table=dataclasses.replace(read.table, cells=cells))


def power_runner(powers):
    """A runner whose round trips are a product of powers: `powers` gives each constant's exponent in a task's cell."""

    def us(task):
        values = task.bench.machine.constants() | dict(task.values)
        return 10.0 * math.exp(sum(power * math.log(values[name]) for name, power in powers(task).items()))

    return lambda tasks: (((us(task),) * task.exchanges,) for task in tasks)


def copied_repository(folder):
    """What a fit reads of the repository, in a folder of its own."""
    shutil.copytree(REPOSITORY / "conf", folder / "conf")
    shutil.copytree(REPOSITORY / "records" / "published", folder / "records" / "published")
    return folder
