"""What a test needs beyond the dependencies: `@pytest.mark.requires("torch")`, `requires("gpus:2", "one-worker")`.

Where the thing is missing the test is skipped, and the summary says so. TESTS_REQUIRE="torch nvcc" turns the skip of
each name it lists into a failure: that is how CI makes sure that these tests have run.
"""

import importlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache

import pytest

NEEDS: Mapping[str, Callable[[], bool]] = {
    "torch": lambda: importlib.util.find_spec("torch") is not None,
    "nvcc": lambda: shutil.which("nvcc") is not None,
    "hydra": lambda: importlib.util.find_spec("hydra") is not None,
    "one-worker": lambda: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) == 1,
}


@cache
def gpus() -> int:
    """How many GPUs torch may use here; none without torch."""
    if not NEEDS["torch"]() or shutil.which("nvidia-smi") is None:
        return 0
    return int(importlib.import_module("torch").cuda.device_count())


COUNTED: Mapping[str, Callable[[], int]] = {"gpus": gpus}
"""Needs with a number, as `gpus:2`: so many or more."""


def is_met(name: str) -> bool:
    kind, _, count = name.partition(":")
    return COUNTED[kind]() >= int(count) if kind in COUNTED else NEEDS[name]()


def check_known(names: tuple[str, ...], where: str) -> None:
    """Raise UsageError for a name that neither NEEDS nor COUNTED defines."""
    for name in names:
        kind, _, count = name.partition(":")
        if name not in NEEDS and not (kind in COUNTED and count.isdecimal()):
            valid = ", ".join([*NEEDS, *(f"{one}:COUNT" for one in COUNTED)])
            raise pytest.UsageError(f"{where} names {name!r}, which no test can require\nthe names are {valid}")


def pytest_configure(config: pytest.Config) -> None:
    check_known(tuple(os.environ.get("TESTS_REQUIRE", "").split()), "TESTS_REQUIRE")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("night") is not None and "TESTS_NIGHT" not in os.environ:
        pytest.skip("runs at night: make night")
    insisted = os.environ.get("TESTS_REQUIRE", "").split()
    for marker in item.iter_markers("requires"):
        check_known(marker.args, item.nodeid)
        for name in marker.args:
            if is_met(name):
                continue
            if name in insisted:
                pytest.fail(f"{name} is missing, and TESTS_REQUIRE insists on it", pytrace=False)
            pytest.skip(f"needs {name}, which this run lacks")
