"""A process leaves at once, with everything said, where nobody reads on, and when whoever started it is gone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LATE_ABORT = """
import atexit, os, sys
from harness.leaving import leave
atexit.register(os.abort)
print("said", end="")
print("complained", end="", file=sys.stderr)
leave(3)
"""

POOL = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from harness.leaving import leave_with_the_parent
with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=leave_with_the_parent) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def kill_the_parent_of_a_pool(code):
    """A killed process whose output is still open as long as a process of its pool lives, and one such process."""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    return parent, child


def test_the_processes_of_a_pool_leave_when_their_parent_is_killed():
    parent, _ = kill_the_parent_of_a_pool(POOL)
    assert parent.communicate(timeout=30) == ("", None)


def test_without_that_they_stay():
    parent, child = kill_the_parent_of_a_pool(POOL.replace(", initializer=leave_with_the_parent", ""))
    with pytest.raises(subprocess.TimeoutExpired):
        parent.communicate(timeout=2)
    os.kill(child, signal.SIGKILL)
    parent.communicate(timeout=30)


def test_nothing_on_the_way_out_can_abort_a_process_and_all_it_said_arrives():
    done = subprocess.run([sys.executable, "-c", LATE_ABORT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said", "complained")


def test_without_leaving_the_same_process_aborts():
    code = LATE_ABORT.replace("leave(3)", "sys.exit(3)")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode < 0


def test_a_reader_that_leaves_ends_the_command_quietly():
    command = f"{sys.executable} -m harness claims kind=latency | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("141\n", "")
