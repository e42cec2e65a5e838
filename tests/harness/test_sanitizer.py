"""Runs under compute-sanitizer: what the tool's words are read as, and what must be there for its silence to count."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.records.sanitizings import SanitizerRecord, read_sanitizing
from harness.sanitizer import offline, page, runs
from harness.sanitizer.plants import PLANTS, SOUND
from harness.sanitizer.runs import Ended
from tests.harness.test_interruption import processes_in, wait_until

ROOT = Path(__file__).resolve().parents[2]
TOOL = """#!/bin/bash
# Runs what it is given, and finds an error wherever the tree is planted.
if [[ $1 == --version ]]; then echo "Version 2025.3"; exit; fi
while [[ $1 != *python* ]]; do case $1 in --tool) tool=$2 ;; --log-file) log=$2 ;; esac; shift; done
"$@"; code=$?
kind="ERROR SUMMARY"; word=errors
if [[ $tool == racecheck ]]; then kind="RACECHECK SUMMARY"; word=hazards; fi
echo "========= COMPUTE-SANITIZER" > "$log"
if [[ $PYTHONPATH == */sound ]]; then
    echo "========= $kind: 0 $word displayed" >> "$log"; exit $code
fi
echo "========= Invalid __global__ write of size 4 bytes" >> "$log"
echo "=========     at elastic::copy_epilogue(elastic::Exchange)+0x1f90" >> "$log"
echo "========= $kind: 3 $word displayed" >> "$log"; exit 99
"""
RANK = """
import json, os, sys, time
{before}
print(json.dumps({{"event": "sanitizer exact", "exchanges": 2, "digest": "n0"}}))
"""


@pytest.fixture
def node(tmp_path, monkeypatch):
    def made(before=""):
        for name in (SOUND, *(one.name for one in PLANTS)):
            (tmp_path / "slots" / name).mkdir(parents=True)
            (tmp_path / "slots" / name / "ranks.py").write_text(RANK.format(before=before))
        return tmp_path

    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text(TOOL)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    return made


def play(folder, limit_s=60.0):
    status = offline.main(folder / "slots", folder / "out", 2, limit_s, "ranks")
    return status, read_sanitizing(folder / "out" / "sanitizer.parquet")


def test_silence_on_the_sound_tree_and_a_report_of_each_plant_pass(node):
    status, records = play(node())
    assert status == 0
    assert [page.outcome(one, records) for one in records] == ["silent"] * 8 + ["reported"] * 4
    assert {(one.tool, one.tree) for one in records[8:]} == {("memcheck", "bounds"), ("racecheck", "shared")}
    assert {one.native_digest for one in records} == {"n0"}


def test_a_rank_that_compared_nothing_passes_nowhere(node):
    status, records = play(node("sys.exit(0)"))
    assert status == 1
    assert page.outcome(records[0], records) == "no exchange compared"


def test_a_rank_that_fails_by_itself_fails(node):
    assert page.outcome((records := play(node("sys.exit(1)"))[1])[0], records) == "FAILED"


def test_a_rank_that_hangs_is_ended_for_the_limit(node):
    status, records = play(node("time.sleep(60)"), limit_s=1.0)
    assert status == 1
    assert {page.outcome(one, records) for one in records} == {"ended for its limit"}


def test_a_command_plays_every_run_again_where_an_earlier_one_was(node):
    folder = node()
    assert play(folder)[0] == 0
    assert play(folder)[0] == 0


def test_no_log_of_an_earlier_command_speaks_for_a_later_one(node):
    folder = node()
    assert play(folder)[0] == 0
    (folder / "bin" / "compute-sanitizer").write_text("#!/bin/bash\nexit 0\n")
    status, records = play(folder)
    assert status == 1
    assert {page.outcome(one, records) for one in records} == {"no summary of the tool"}


@pytest.mark.parametrize("text", ["x", "0", "-1", ""])
def test_a_number_of_runs_at_a_time_that_is_none_is_refused(text):
    with pytest.raises(HarnessError, match=f"AT_A_TIME: expected a number from 1, received '{text}'"):
        offline.runs_at_a_time([text])


def test_runs_at_a_time_are_six_unless_told_otherwise():
    assert (offline.runs_at_a_time([]), offline.runs_at_a_time(["2"])) == (6, 2)


COMMAND = """
import sys
from pathlib import Path
from harness.sanitizer import offline
sys.exit(offline.main(Path("slots"), Path("out"), 1, 60.0, "ranks"))
"""


def test_a_command_that_is_killed_leaves_what_it_played_and_no_process(node):
    folder = node("if '/bounds' in os.environ['PYTHONPATH']: print('up', flush=True); time.sleep(60)")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = subprocess.Popen([sys.executable, "-c", COMMAND], cwd=folder, env=environ, stdout=subprocess.DEVNULL)
    out = folder / "out" / "4-memcheck-afdep-bounds" / "1.out"
    wait_until(lambda: out.exists() and out.read_text(), "the run that does not end")
    command.send_signal(signal.SIGKILL)
    command.wait()
    wait_until(lambda: not processes_in(folder), "the end of every tool and rank")
    records = read_sanitizing(folder / "out" / "sanitizer.parquet")
    assert [page.outcome(one, records) for one in records] == ["silent"] * 8 + ["not played"] * 4
    assert page.faults(records)[0] == "memcheck afdep bounds rank 0: not played"
    assert "Cut short: 4 of 12 ranks were not played." in page.text(records)


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
    assert Ended(99, (), log, 1.0).reports_in("copy_epilogue") == is_there


@pytest.fixture(scope="module")
def records():
    one = SanitizerRecord(
        created="2026-01-02T00:00:00+00:00",
        harness_digest="h0",
        version="Version 2025.3",
        tool="memcheck",
        tree=SOUND,
        plant=None,
        arm="afdep",
        native_digest="n0",
        rank=0,
        expects=page.SILENCE,
        exchanges=2,
        errors=0,
        in_kernel=False,
        exit_code=0,
        seconds=30.0,
        said="",
    )
    planted = replace(
        one, tree="bounds", plant="a word", expects="copy_epilogue", errors=1, in_kernel=True, exit_code=99
    )
    return [one, planted]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"errors": 1, "exit_code": 99}, "FAILED"),
        ({"errors": None}, "no summary of the tool"),
        ({"exit_code": None, "errors": None}, "ended for its limit"),
    ],
)
def test_an_unsound_run_of_the_sound_tree_is_a_fault(records, changes, word):
    sound = replace(records[0], **changes)
    assert page.outcome(sound, [sound, records[1]]) == word
    assert page.faults([sound, records[1]]) == [f"memcheck afdep sound rank 0: {word}"]


@pytest.mark.parametrize("changes", [{"errors": 0, "exit_code": 0, "in_kernel": False}, {"in_kernel": False}])
def test_a_plant_that_is_not_reported_in_its_kernel_is_a_fault(records, changes):
    silent = replace(records[1], **changes)
    assert page.faults([records[0], silent]) == ["memcheck afdep bounds rank 0: NOT reported"]


def test_the_page_tells_every_run_and_what_was_planted(records):
    text = page.text(records)
    assert "| memcheck | afdep | sound  |    0 |               2 |               0 |         0 | silent   |" in text
    assert "- `bounds`, for memcheck: a word" in text


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_plant_finds_its_one_place_in_the_tree(plant, tmp_path):
    target = tmp_path / plant.file
    target.parent.mkdir(parents=True)
    target.write_text((ROOT / plant.file).read_text("utf-8"))
    plant.put(tmp_path)
    assert plant.text in target.read_text("utf-8")
    target.write_text("nothing of it")
    with pytest.raises(HarnessError, match="expected one place"):
        plant.put(tmp_path)


def test_every_tool_plays_every_arm_and_a_plant_of_its_own():
    planned = runs.planned()
    assert {(one.tool, one.arm) for one in planned if one.plant is None} == {
        (t, a) for t in runs.TOOLS for a in runs.ARMS
    }
    assert {one.tool for one in planned if one.plant is not None} == set(runs.TOOLS)


def test_a_machine_without_the_tool_says_so(monkeypatch):
    monkeypatch.setattr(runs, "_PLACES", ())
    with pytest.raises(HarnessError, match="compute-sanitizer: expected it on the PATH"):
        runs.executable({"PATH": ""})
