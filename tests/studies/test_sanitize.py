"""Runs under compute-sanitizer: what the tool's words are read as, and what must be there for its silence to count."""

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from harness.core import trees
from harness.core.identity import Library
from harness.errors import TreeError
from harness.records import read, record_files, table
from harness.report.results import Part, Results
from harness.studies.sanitize import program, report
from harness.studies.sanitize.program import INJECTED, SOUND, Record, Trial
from harness.study import Block, Ended
from tests.studies.executing import ROOT, prepare, processes_in, run, settings_of, wait_until

SETTINGS = settings_of("sanitize")
BATCHES = program.blocks(SETTINGS, ())[0].batches
TOOL = """#!/bin/bash
# Runs what it is given, and finds an error wherever its job names an edited library.
if [[ $1 == --version ]]; then echo "Version 2025.3"; exit; fi
while [[ $1 != *python* ]]; do case $1 in --tool) tool=$2 ;; --log-file) log=$2 ;; esac; shift; done
"$@"; code=$?
kind="ERROR SUMMARY"; word=errors
if [[ $tool == racecheck ]]; then kind="RACECHECK SUMMARY"; word=hazards; fi
echo "========= COMPUTE-SANITIZER" > "$log"
if ! grep -q edited.so ../job.json; then
    echo "========= $kind: 0 $word displayed" >> "$log"; exit $code
fi
echo "========= Invalid __global__ write of size 4 bytes" >> "$log"
echo "=========     at elastic::copy_epilogue(elastic::Exchange)+0x1f90" >> "$log"
echo "========= $kind: 3 $word displayed" >> "$log"; exit 99
"""


FAKES = {"harness/ranks/device.py": ROOT / "tests/studies/sanitized_ranks.py"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return prepare("sanitize", SETTINGS, tmp_path_factory.mktemp("plan"), FAKES)


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A script that stands for compute-sanitizer."""
    path = tmp_path / "bin" / "compute-sanitizer"
    path.parent.mkdir()
    path.write_text(TOOL)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    program.version.cache_clear()
    return path


def outcome_of(made, folder, wrong="", **more):
    """What came of a plan whose ranks go wrong in a way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "library", lambda slot, edits: Library("/edited.so", "n0"))
        return run(made, folder, environ={**os.environ, "LANG": wrong}, **more)


def outcomes(rows):
    return [program.outcome(one, [other for other in rows if other.key == one.key]) for one in rows]


def one_batch(tree, limit_s=60.0):
    batch = program._batch(SETTINGS, Trial("memcheck", "afdep", tree))
    return (Block((replace(batch, limit_s=limit_s),)),)


def test_silence_on_the_sound_tree_and_a_report_of_each_fault_pass(made, tmp_path, tool):
    ran = outcome_of(made, tmp_path)
    assert report.status(ran.results) == 0
    assert outcomes(ran.rows) == ["silent"] * 8 + ["reported"] * 4
    assert {(one.tool, one.tree) for one in ran.rows[8:]} == {("memcheck", "bounds"), ("racecheck", "shared")}
    assert {(one.native_digest, one.version) for one in ran.rows} == {("n0", "Version 2025.3")}
    assert {(one.exit_code, one.status) for one in ran.rows[8:]} == {(99, "ok")}
    assert (ran.executor.failures, ran.told) == ({}, ["ok"] * 6)


WRONG = {
    "nothing compared": (SOUND, "no exchange compared"),
    "dies": (SOUND, "FAILED"),
    "fails": (SOUND, "no exchange compared; MismatchError: rows differ"),
    "hangs": ("bounds", "ended for its limit"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_ranks_that_go_wrong_pass_nowhere(made, tmp_path, tool, wrong):
    tree, word = WRONG[wrong]
    blocks = one_batch(tree, 8.0 if wrong == "hangs" else 60.0)
    ran = outcome_of(made, tmp_path, wrong, blocks=blocks)
    assert set(outcomes(ran.rows)) == {word.partition(";")[0]}
    assert {one.status for one in ran.rows} == {"failed"}
    assert all(one.reason.startswith(word) for one in ran.rows)
    assert report.status(ran.results) == 1


def test_a_tool_that_writes_nothing_has_no_say(made, tmp_path, tool):
    tool.write_text('#!/bin/bash\n[[ $1 == --version ]] && exit\nwhile [[ $1 != *python* ]]; do shift; done\n"$@"\n')
    ran = outcome_of(made, tmp_path, blocks=one_batch(SOUND))
    assert set(outcomes(ran.rows)) == {"no summary of the tool"}


def test_another_library_than_was_built_is_void(made, tmp_path, tool):
    (row,) = outcome_of(made, tmp_path, "another library", blocks=one_batch("bounds")).rows
    assert (row.status, row.reason, row.rank) == ("void", "expected the library n0, received n1", None)


def test_a_machine_without_the_tool_says_so(made, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.core.launch._TOOLS", ())
    ran = outcome_of(made, tmp_path, blocks=one_batch(SOUND))
    (row,) = ran.rows
    assert (row.status, row.reason) == ("void", "needs compute-sanitizer, which is not on the PATH")
    assert report.status(ran.results) == 3


COMMAND = """
import pickle, sys
from pathlib import Path
from tests.studies import test_sanitize
made = pickle.loads(Path(sys.argv[1]).read_bytes())
test_sanitize.outcome_of(made, Path(sys.argv[1]).parent, "hangs")
"""


def test_a_command_that_is_killed_leaves_what_it_ran_and_no_process(made, tmp_path, tool):
    (tmp_path / "made").write_bytes(pickle.dumps(made))
    command = subprocess.Popen([sys.executable, "-c", COMMAND, str(tmp_path / "made")], cwd=ROOT)
    hanging = tmp_path / "scratch"
    wait_until(lambda: any("up" in one.read_text() for one in hanging.glob("*/1.stderr")), "the run that hangs")
    command.send_signal(signal.SIGKILL)
    command.wait()
    wait_until(lambda: not processes_in(tmp_path), "the end of every tool and rank")
    assert outcomes(read(record_files(tmp_path / "records")).of(Record)) == ["silent"] * 8


REPORTS = {
    "memcheck": ("=========     at elastic::copy_epilogue(elastic::Exchange)+0x1f90", True),
    "memcheck with a source line": ("=========     at void copy_epilogue<4>(Exchange)+0x10 in copy.cuh:12", True),
    "racecheck": ("========= Error: Race reported between Write access at elastic::copy_epilogue(Exchange)+0x50", True),
    "the other access": ("=========     and Write access at elastic::copy_epilogue(Exchange)+0x50 [4 hazards]", True),
    "another kernel": ("=========     at elastic::dispatch(Exchange)+0x1f90", False),
    "a kernel that begins alike": ("=========     at elastic::copy_epilogue_next(Exchange)+0x1f90", False),
    "a kernel's argument": ("=========     at elastic::dispatch(copy_epilogue)+0x1f90", False),
    "a frame": ("=========         Host Frame: at elastic::copy_epilogue(Exchange) in lib.so", False),
    "what a rank printed": ("it failed at elastic::copy_epilogue(Exchange)+0x1f90", False),
}


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_is_in_a_kernel_where_the_tool_places_its_error_there(report):
    line, is_there = REPORTS[report]
    log = f"========= COMPUTE-SANITIZER\n{line}\n========= ERROR SUMMARY: 1 error"
    assert program.read(log, "copy_epilogue")["in_kernel"] == is_there


SILENT = Record(tool="memcheck", arm="afdep", rank=0, exchanges=2, errors=0, exit_code=0, native_digest="n0")
FAULTY = replace(
    SILENT, tree="bounds", control="a word", expects="copy_epilogue", errors=1, in_kernel=True, exit_code=99
)


def results(*rows):
    told = tuple(asdict(one) | {"table": one.table} for one in rows)
    return Results("sanitize", "example", (Part(None, table.Reading(told, (), 1)),))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"errors": 1, "exit_code": 99}, "FAILED"),
        ({"errors": None}, "no summary of the tool"),
        ({"exit_code": None, "errors": None}, "ended for its limit"),
    ],
)
def test_an_unsound_run_of_the_sound_tree_is_told(changes, word):
    sound = replace(SILENT, **changes, status="failed", reason=word)
    assert report.summary(results(sound, FAULTY)).startswith(f"memcheck afdep sound rank 0: {word}\n")
    assert report.status(results(sound, FAULTY)) == 1


@pytest.mark.parametrize("changes", [{"errors": 0, "exit_code": 0, "in_kernel": False}, {"in_kernel": False}])
def test_a_fault_that_is_not_reported_in_its_kernel_is_told(changes):
    missed = replace(FAULTY, **changes)
    assert report.summary(results(SILENT, missed)).startswith("memcheck afdep bounds rank 0: NOT reported\n")


def test_a_fault_may_be_reported_on_the_other_rank():
    other = replace(FAULTY, rank=1, errors=0, in_kernel=False, exit_code=0)
    assert program.outcome(other, [FAULTY, other]) == "reported on the other rank"


def test_the_page_tells_every_run_and_what_was_injected():
    text = report.text(results(SILENT, FAULTY))
    assert "| memcheck | afdep | sound  |    0 |               2 |               0 |         0 | silent   |" in text
    assert "- `bounds`, for memcheck: a word" in text


def test_runs_that_are_missing_are_told_before_their_tools_have_ended():
    assert program.judge(None, BATCHES[0], BATCHES[0].trials[0], Ended({0: {"exchanges": 2}, 1: {}}, {}, 2)) == []


@pytest.mark.parametrize("tree", INJECTED)
def test_a_fault_finds_its_one_place_in_the_tree(tree, tmp_path):
    one = INJECTED[tree]
    target = tmp_path / one.edit.file
    target.parent.mkdir(parents=True)
    target.write_text((ROOT / one.edit.file).read_text("utf-8"))
    trees.edit(tmp_path, (one.edit,))
    assert one.edit.instead in target.read_text("utf-8")
    target.write_text("nothing of it")
    with pytest.raises(TreeError, match="once, received it 0 times"):
        trees.edit(tmp_path, (one.edit,))


def test_every_tool_runs_every_arm_and_a_fault_of_its_own():
    trials = [trial for batch in BATCHES for trial in batch.trials]
    sound = {(one.tool, one.arm) for one in trials if one.tree == SOUND}
    assert sound == {(tool, arm) for tool in SETTINGS.tools for arm in SETTINGS.arms}
    assert {one.tool for one in trials if one.tree in INJECTED} == set(SETTINGS.tools)


def test_a_tool_is_told_where_to_write_what_to_exit_with_and_to_leave_api_errors_out():
    commands = {batch.trials[0].tool: " ".join(batch.tool) for batch in BATCHES}
    assert all("--log-file sanitizer.log --error-exitcode 99" in one for one in commands.values())
    assert ["--report-api-errors no" in commands[tool] for tool in ("memcheck", "racecheck")] == [True, False]
