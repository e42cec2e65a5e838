"""CPU seconds of the tests by folder, children included: `pytest -p tests.budget --budget tests/budget.toml`.

A test's seconds are those of its process and of the children it has waited for, fixtures that it is the first to need
included. A worker of xdist sends them along with the report of a test's end.
"""

import resource
import tomllib
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

MOST = 1.1
"""What a folder may take of its seconds before the session fails."""
DEAREST = 10


def cpu_s() -> float:
    """Of this process and of the children it has waited for, so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", type=Path, help="file of CPU seconds by folder; 110 % of one fails the session")


def pytest_configure(config: pytest.Config) -> None:
    path: Path | None = config.getoption("--budget")
    if path is not None:
        seconds: dict[str, float] = tomllib.loads(path.read_text(encoding="utf-8"))["cpu_seconds"]
        config.pluginmanager.register(Spent(seconds), "spent")


def over(spent: Counter[str], budget: dict[str, float]) -> list[str]:
    """A line for each folder that took more than it may, or that has no budget."""
    return [
        f"tests/{folder}: {seconds:.0f} CPU-s of {budget.get(folder, 0):.0f}"
        for folder, seconds in sorted(spent.items())
        if seconds > MOST * budget.get(folder, 0)
    ]


class Spent:
    """Counts what each test takes.

    Args:
        budget: CPU seconds by folder.
    """

    def __init__(self, budget: dict[str, float]):
        self.budget, self.spent, self.by_test = budget, Counter[str](), Counter[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.began_s = cpu_s()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            report.user_properties.append(("cpu_s", cpu_s() - self.began_s))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = dict(report.user_properties).get("cpu_s")
        if report.when == "teardown" and isinstance(seconds, float):
            self.spent[report.nodeid.split("/")[1]] += seconds
            self.by_test[report.nodeid] += seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and over(self.spent, self.budget):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"{sum(self.spent.values()):.0f} CPU seconds")
        for folder, seconds in sorted(self.spent.items()):
            terminalreporter.line(f"{seconds:6.0f} of {self.budget.get(folder, 0):4.0f}  tests/{folder}")
        for test, seconds in self.by_test.most_common(DEAREST):
            terminalreporter.line(f"{seconds:6.1f}  {test}")
        for line in over(self.spent, self.budget):
            terminalreporter.line(f"over budget: {line}", red=True)
