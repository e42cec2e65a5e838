"""The verb `faults`: its record and page, and a node's folder with its command; without a GPU and a hunt."""

import dataclasses
import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from harness.errors import UsageError
from harness.faults import hunting, offline, page, recording, trees
from harness.faults.guards import GUARDS
from harness.faults.hunting import FOUND, RACE, Hunted
from harness.faults.judging import Outcome
from harness.faults.on_gpus import Job
from harness.records.faults import read_faults, write_faults
from harness.records.typed import DamagedTableError
from harness.verbs import faults as verb
from harness.workspace import REPOSITORY
from tests.harness.fits import AROUND
from tests.harness.test_bundle import bare_python
from tests.harness.test_faults import DIGEST, SETTINGS, TRIALS, trial_of

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HUNTS = [
    Hunted("nothing is taken away", "afdep", "exact", "exact", None, 200, "n1", 4.0),
    Hunted(
        trial_of("drained").control,
        "afdep",
        "caught",
        FOUND,
        "seed 3 (2A2F afdep): MismatchError: rows differ",
        4,
        "n2",
        1.0,
    ),
    Hunted(trial_of("landed").control, "afdep", "caught", "passed", None, 100, "n3", 9.0),
    Hunted(trial_of("release").control, "afdep", "caught", RACE, "data race", 2, "n4", 1.0),
]
MACHINE = {"machine": "NVIDIA H200", "marked": True, "seconds": 0.5}
OUTCOMES = [
    Outcome(trial_of(trees.SHIPPED), "exact", None, 192, 192, digest="n0", **MACHINE),
    Outcome(trial_of(trees.LATE, "rows"), "failed", "rank 1: rows differ", 32, 3, digest="n5", **MACHINE),
    Outcome(trial_of("drained"), "passed", None, 192, 192, digest="n6", **MACHINE),
    Outcome(trial_of("drained", "rows"), "caught: mismatch", "rank 1: rows differ", 32, 1, digest="n6", **MACHINE),
    Outcome(trial_of("landed"), "void", "the time of all starts was over"),
]


def records():
    return [*recording.of_hunts(HUNTS, "harness faults", NOON), *recording.of_gpus(OUTCOMES, "./faults", NOON)]


def cells(text, words):
    line = next(line for line in text.splitlines() if line.startswith(f"| {words}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_records_come_back_as_they_were_written(tmp_path):
    path = write_faults(tmp_path, records(), "example")
    assert list(read_faults(path)) == records()


DAMAGES = {
    "text": lambda whole: b"no table",
    "nothing": lambda whole: b"",
    "its head alone": lambda whole: whole[:300],
    "its ends alone": lambda whole: whole[:8] + whole[-1500:],
    "other bytes": lambda whole: whole[:40] + bytes(200) + whole[240:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_record_that_cannot_be_read_is_refused(tmp_path, damage):
    path = write_faults(tmp_path, records(), "example")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(DamagedTableError, match=r"^example\.parquet: "):
        read_faults(path)


def test_a_record_of_another_version_is_refused(tmp_path, monkeypatch):
    path = write_faults(tmp_path, records(), "example")
    monkeypatch.setattr("harness.records.faults.FAULTS_VERSION", 99)
    with pytest.raises(DamagedTableError, match="version"):
        read_faults(path)


def test_a_guard_has_its_hunt_beside_its_trials_in_columns_that_say_which_is_which():
    text = page.text("example", records())
    name = trial_of("drained").control
    head = cells(text, "without the guard")
    assert head[2].startswith("simulated")
    assert head[4].startswith("measured")
    assert cells(text, name) == [name, "`afdep`", "4, MismatchError", "1A1F", "\u2014", "passed", "192"]
    assert "| rows, 200 us   | caught: mismatch" in text


@pytest.mark.parametrize(("slug", "simulated"), [("landed", "not found in 100"), ("release", "race checker")])
def test_a_guard_that_the_hunt_does_not_miss_says_so(slug, simulated):
    assert cells(page.text("example", records()), trial_of(slug).control)[2] == simulated


def test_a_guard_that_no_gpu_played_without_has_dashes():
    assert cells(page.text("example", records()), trial_of("release").control)[3:] == ["\u2014"] * 4


def test_a_void_trial_counts_no_exchange_and_gives_its_reason():
    text = page.text("example", records())
    assert cells(text, trial_of("landed").control)[-2:] == ["void", "\u2014"]
    assert "- void: " in text
    assert "the time of all starts was over" in text


def test_void_trials_alone_are_nothing():
    assert recording.status_of([one for one in records() if one.outcome == "void"]) == 3


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("clean", "passed"), ("x\nWARNING: ThreadSanitizer: data race (pid=1)", RACE), ("ld.so: no such object\n", None)],
)
def test_a_race_checker_that_did_not_run_has_not_passed(monkeypatch, said, outcome):
    monkeypatch.setattr(hunting.races, "library", lambda tree: tree)
    monkeypatch.setattr(hunting.races, "report", lambda path, arm, seeds: said)
    plant = next(guard.plant for guard in GUARDS if guard.slug == "release")
    if outcome is None:
        with pytest.raises(UsageError, match=r"received 'ld\.so: no such object'"):
            hunting.without(plant)
    else:
        assert hunting.without(plant).outcome == outcome


def test_what_had_to_be_exact_and_is_not_is_told_and_ends_in_1():
    assert recording.status_of(records()) == 1
    assert "measured, must be exact: 1 exact, 1 failed" in page.summary(records())
    assert recording.status_of([one for one in records() if one.outcome not in {"failed", "void"}]) == 0


@pytest.fixture
def around(tmp_path, monkeypatch):
    """A repository without a hunt, and what is said in it."""
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    said: list[str] = []
    monkeypatch.setattr(verb, "hunt_all", lambda seeds, listen: [listen(one) or one for one in HUNTS])
    return dataclasses.replace(AROUND, repository=tmp_path, print_line=said.append), said


def test_hunts_and_what_a_node_left_are_kept_together(around):
    surroundings, said = around
    left = write_faults(surroundings.repository / "left", recording.of_gpus(OUTCOMES[2:], "./faults", NOON))
    assert verb.run([f"source={left}", "keep=example"], surroundings) == 3  # one had no time left
    kept = read_faults(surroundings.repository / "records/faults/example.parquet")
    assert [one.backend for one in kept] == ["sim"] * 4 + ["cuda"] * 3
    assert (surroundings.repository / "reports/faults/example.md").read_text().startswith("# Faults example\n")
    assert said[-1] == "written: records/faults/example.parquet, reports/faults/example.md"
    with pytest.raises(UsageError, match="expected a new name"):
        verb.run(["keep=example"], surroundings)


def test_a_folder_that_is_no_nodes_is_never_replaced(around):
    surroundings, _ = around
    (surroundings.repository / "mine").mkdir()
    with pytest.raises(UsageError, match="which is neither"):
        verb.run(["to=mine"], surroundings)


def test_a_nodes_folder_plays_on_a_bare_python_and_says_that_it_has_no_gpus(tmp_path):
    folder = tmp_path / "folder"
    for part in ("afdep", "harness"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / part, folder / offline.TREE / part, ignore=ignored)
    offline.write(folder, Job(tuple(TRIALS[:2]), ((TRIALS[0].library, DIGEST),), 1.0, 2.5, SETTINGS.limit_s))
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(bare_python(tmp_path / "node"))}
    command = [str(folder / offline.COMMAND)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    (left,) = (folder / "out").glob("*.parquet")
    assert (done.returncode, done.stderr) == (3, "")
    assert {(one.outcome, one.marked) for one in read_faults(left)} == {("void", False)}
    assert all(one.reason.startswith("needs GPUs") for one in read_faults(left))
