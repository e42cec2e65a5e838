"""A run that is killed resumes, its processes do not outlive it, and two runs at once do not harm each other."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import records
from tests.harness.conftest import Bench

ROOT = Path(__file__).resolve().parents[2]
DRIVER = """
import sys
from tests.harness.conftest import Bench
from pathlib import Path
bench = Bench(Path(sys.argv[1]), {"PATH": "/usr/bin:/bin", "HOME": sys.argv[1]})
bench.lines = type("Printer", (list,), {"append": lambda self, line: print(line, flush=True)})()
sys.exit(bench.screen(*sys.argv[2:]))
"""
PATIENCE_S = 20.0


def drive(bench: Bench, *texts: str) -> subprocess.Popen[str]:
    """A screen in a driver process of its own."""
    command = [sys.executable, "-c", DRIVER, str(bench.root), *texts]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_until(condition, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {PATIENCE_S} s"
        time.sleep(0.02)


def processes_in(folder: Path) -> list[int]:
    """Processes whose working folder lies under `folder`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink().is_relative_to(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@contextmanager
def halfway(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    """A driver whose baseline is recorded and whose candidate is in the middle of its row."""
    arrived, go = bench.root.parent / "arrived", bench.root.parent / "go"
    wish = {"arm": "afdep@bd4db4da", "tokens": 8, "do": "wait", "arrived": str(arrived), "go": str(go)}
    bench.behave(wish)
    driver = drive(bench, "launcher.jobs=1")
    try:
        wait_until(arrived.exists, "the second process")
        yield driver
    finally:
        go.touch()
        driver.kill()
        driver.communicate()


def test_a_killed_run_takes_its_processes_along_and_the_next_run_resumes(bench):
    with halfway(bench) as driver:
        assert processes_in(bench.root)
        driver.send_signal(signal.SIGKILL)
        wait_until(lambda: not processes_in(bench.root), "the end of the measuring process")
        assert {(one.arm, one.status) for one in bench.records()} == {("m2n", "ok")}
    assert bench.screen() == 0
    assert "2 processes of 2 cells, 1 to run" in bench.text
    assert len(bench.record_files()) == 2


def test_an_interrupted_run_ends_its_processes_and_records_no_failure(bench):
    with halfway(bench) as driver:
        driver.send_signal(signal.SIGINT)
        output, _ = driver.communicate(timeout=PATIENCE_S)
        assert "KeyboardInterrupt" in output
        assert not processes_in(bench.root)
        assert {(one.arm, one.status) for one in bench.records()} == {("m2n", "ok")}


def test_two_runs_of_one_plan_at_once_agree(bench):
    drivers = [drive(bench) for _ in range(2)]
    outputs = [driver.communicate()[0] for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], outputs
    assert len(list(bench.out("plans").glob("*.json"))) == 1
    reading = records.read(bench.record_files())
    assert reading.quarantined == ()
    assert {one.status for one in reading.records} == {"ok"}
    assert len({one.key for one in reading.records}) == 4
    bench.lines.clear()
    assert bench.screen() == 0
    assert "4 of 4 planned cells count" in bench.text
    assert "nothing to measure" in bench.text
