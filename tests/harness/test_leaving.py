"""A process leaves at once, with everything said, and quietly where nobody reads on."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LATE_ABORT = """
import atexit, os, sys
from harness.leaving import leave
atexit.register(os.abort)
print("said", end="")
print("complained", end="", file=sys.stderr)
leave(3)
"""


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
