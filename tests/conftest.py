"""What a test needs beyond the dependencies: `@pytest.mark.requires("torch")` or `@pytest.mark.requires("nvcc")`.

Where the thing is missing the test is skipped, and the summary says so. TESTS_REQUIRE="torch nvcc" turns the skip of
each name it lists into a failure: that is how CI makes sure that these tests have run.
"""

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping

import pytest

NEEDS: Mapping[str, Callable[[], bool]] = {
    "torch": lambda: importlib.util.find_spec("torch") is not None,
    "nvcc": lambda: shutil.which("nvcc") is not None,
    "hydra": lambda: importlib.util.find_spec("hydra") is not None,
    "gpu": lambda: shutil.which("nvidia-smi") is not None and NEEDS["torch"](),
}


def check_known(names: tuple[str, ...], where: str) -> None:
    """Raise UsageError for a name that NEEDS does not define."""
    for name in names:
        if name not in NEEDS:
            valid = ", ".join(NEEDS)
            raise pytest.UsageError(f"{where} names {name!r}, which no test can require\nthe names are {valid}")


def pytest_configure(config: pytest.Config) -> None:
    check_known(tuple(os.environ.get("TESTS_REQUIRE", "").split()), "TESTS_REQUIRE")


def pytest_runtest_setup(item: pytest.Item) -> None:
    insisted = os.environ.get("TESTS_REQUIRE", "").split()
    for marker in item.iter_markers("requires"):
        check_known(marker.args, item.nodeid)
        for name in marker.args:
            if NEEDS[name]():
                continue
            if name in insisted:
                pytest.fail(f"{name} is missing, and TESTS_REQUIRE insists on it", pytrace=False)
            pytest.skip(f"needs {name}, which this machine lacks")
