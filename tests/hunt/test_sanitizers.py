"""The simulator and the kernels under the compiler's sanitizers, on hunts of a few seeds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from afdep.build import build
from afdep.tree import root

ARMS = ("m2n", "afdep", "afdep[AFDEP_UNION_NOTIFY=1]")
SEEDS = 12

PROGRAM = """
import sys
from pathlib import Path
from afdep.proof.hunt import run_seeds
from afdep.proof.scenario import Hunt
for arm in sys.argv[3:]:
    findings = list(run_seeds(Hunt.small(arm, library=Path(sys.argv[1])), range(int(sys.argv[2]))))
    assert not findings, findings[0]
print("clean")
"""

OVERRUN = """
import ctypes, sys
from pathlib import Path
from afdep.sim import native
library = native.load(Path(sys.argv[1]))
error = ctypes.create_string_buffer(8)
names = (ctypes.c_char_p * 1)(b"no such constant of the machine")
library.sim_create(2, ctypes.byref(native.OptionsStruct()), names, None, 1, error, 8)
"""


def library_of(compiler: str, name: str) -> str:
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def run(program: str, *arguments: str, preload: str = "") -> subprocess.CompletedProcess[str]:
    # Fibers leave frames behind when a world is dropped, and the interpreter leaks by design.
    settings = {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0", "LD_PRELOAD": preload}
    environment = os.environ | settings | {"PYTHONPATH": str(root())}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def address_library() -> Path:
    return build(flags=("-O1", "-g", "-fsanitize=address"))


def test_hunts_are_clean_under_the_address_sanitizer(address_library):
    done = run(PROGRAM, str(address_library), str(SEEDS), *ARMS, preload=library_of("g++", "libasan.so"))
    assert (done.returncode, done.stdout.strip()) == (0, "clean"), done.stderr


def test_the_address_sanitizer_sees_a_bad_pointer(address_library):
    done = run(OVERRUN, str(address_library), preload=library_of("g++", "libasan.so"))
    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr


def test_hunts_are_clean_under_the_undefined_behaviour_sanitizer():
    library = build(flags=("-O1", "-g", "-fsanitize=undefined", "-fno-sanitize-recover=undefined"))
    done = run(PROGRAM, str(library), str(SEEDS), *ARMS)
    assert (done.returncode, done.stdout.strip()) == (0, "clean"), done.stderr
