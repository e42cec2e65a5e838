"""A bundle is run by one command where nothing is built or fetched, goes on where it was cut short, and is not lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.node import INDEX, entries
from harness.core.trees import Slots
from harness.desk import node
from harness.desk.desk import Launcher, real
from harness.errors import BundleError, UsageError
from harness.records import read, record_files
from tests.core.conftest import PATIENCE_S, processes_in, said, wait_until


@pytest.fixture
def desk(tmp_path):
    lines: list[str] = []
    return replace(real(), here=tmp_path, print_line=lines.append)


def launcher(folder="bundle"):
    return Launcher("node", 1, PATIENCE_S, 60.0, "out", folder)


def add(bench, desk, *batches, **more):
    """A plan of the toy study in the bundle, by its own copy of the trees."""
    file = bench.plan(*batches, **more)
    slots = Slots(desk.here / "slots", bench.made.slots.num_trees)
    shutil.copytree(bench.made.slots.root, slots.root, dirs_exist_ok=True)
    assert node.add(file, slots, bench.made.sources, launcher(), desk) == 0
    shutil.rmtree(slots.root)
    return file


def command(desk, *names):
    return subprocess.Popen(
        [str(desk.here / "bundle" / "run"), *names],
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "HOME": str(desk.here)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(desk, *names):
    """What `./run` printed, and its status."""
    child = command(desk, *names)
    out, error = child.communicate(timeout=PATIENCE_S)
    return child.returncode, out, error


def rows(desk, file):
    from harness.studies.toy.program import Record

    found = read(record_files(desk.here / "bundle" / "out" / "records" / file.plan_hash))
    return sorted(found.of(Record), key=lambda row: (row.number, row.attempt))


def test_one_command_runs_every_plan_of_a_bundle_once(bench, desk):
    first, second = add(bench, desk, ["ok", "ok"]), add(bench, desk, ["ok"], on_loss="void")
    status, out, error = run(desk)
    assert (status, error) == (0, "")
    assert "1 of 2: toy, about" in out
    assert "2 of 2: toy-2, about" in out
    assert "toy: 2 ok records" in out
    assert [said(rows(desk, one)) for one in (first, second)] == [[(0, "ok"), (1, "ok")], [(0, "ok")]]
    before = rows(desk, first)
    status, out, _ = run(desk)
    assert (status, rows(desk, first)) == (0, before)
    assert f"plan {first.plan_hash}: 0 trials to run" in out


def test_plans_can_be_run_by_name(bench, desk):
    first, second = add(bench, desk, ["ok"]), add(bench, desk, ["ok"], on_loss="void")
    assert run(desk, "toy-2")[0] == 0
    assert (len(rows(desk, first)), len(rows(desk, second))) == (0, 1)


def test_an_unknown_name_lists_those_there_are(bench, desk):
    add(bench, desk, ["ok"])
    status, out, error = run(desk, "tox")
    assert (status, out) == (4, "")
    assert error.splitlines()[1] == "did you mean toy? Valid: toy."


@pytest.mark.parametrize(("do", "status"), [("void:no GPUs", 3), ("raise:wrong", 1)], ids=["void", "failed"])
def test_what_does_not_count_is_said_with_its_reason_and_the_status(bench, desk, do, status):
    add(bench, desk, [do])
    ended, out, _ = run(desk)
    assert ended == status
    assert do.partition(":")[2] in out


def test_pairs_that_each_lost_a_side_are_nothing_that_counts(bench, desk):
    file = add(bench, desk, ["ok"], ["void:no GPUs"], on_loss="void")
    status, out, _ = run(desk)
    assert said(rows(desk, file)) == [(0, "ok"), (1, "void")]
    assert "void: no GPUs" in out
    assert out.splitlines()[-1] == "toy: 1 ok, 1 void records; 2 of 2 trials do not count"
    assert status == 3


def test_what_counts_beside_what_is_void_is_a_result_and_the_rest_is_counted(bench, desk):
    add(bench, desk, ["ok"], ["void:no GPUs"])
    status, out, _ = run(desk)
    assert out.splitlines()[-1] == "toy: 1 ok, 1 void records; 1 of 2 trials do not count"
    assert status == 0


def test_a_python_without_its_packages_is_an_error_of_two_lines(bench, desk):
    add(bench, desk, ["ok"])
    bare = desk.here / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys._base_executable} -I "$@"\n')
    bare.chmod(0o755)
    done = subprocess.run([desk.here / "bundle" / "run"], env={"PYTHON": str(bare)}, capture_output=True, text=True)
    problem, next_step = done.stderr.splitlines()
    assert problem == f"{bare}: expected Python 3.11 or newer with numpy and pyarrow, received another."
    assert (done.returncode, done.stdout, next_step) == (4, "", "Write PYTHON=/path/to/python3 ./run.")


def test_a_run_that_is_killed_goes_on_where_it_was(bench, desk, tmp_path):
    gate = tmp_path / "go"
    file = add(bench, desk, ["ok"], [f"wait:{gate}"])
    child = command(desk)
    wait_until(Path(f"{gate}.arrived").exists, "the second trial")
    for pid in processes_in(desk.here / "bundle"):
        os.kill(pid, signal.SIGKILL)
    child.communicate(timeout=PATIENCE_S)
    gate.touch()
    assert run(desk)[0] == 0
    assert said(rows(desk, file)) == [(0, "ok"), (1, "void"), (1, "ok")]


def test_a_plan_is_ended_after_its_limit_and_the_next_one_follows(bench, desk, tmp_path):
    add(bench, desk, [f"wait:{tmp_path / 'never'}"])
    add(bench, desk, ["ok"])
    index = desk.here / "bundle" / INDEX
    data = json.loads(index.read_text())
    data["entries"][0]["grace_s"] = 3.0 - data["entries"][0]["limit_s"]
    index.write_text(json.dumps(data))
    status, out, _ = run(desk)
    assert "toy: ended after its limit; started again it goes on" in out
    assert "toy-2: 1 ok records" in out
    assert status == 3


def test_adding_a_plan_again_changes_nothing_and_records_stay(bench, desk):
    file = add(bench, desk, ["ok"])
    run(desk)
    index = (desk.here / "bundle" / INDEX).read_bytes()
    add(bench, desk, ["ok"])
    add(bench, desk, ["ok"], rounds=2)
    assert len(entries(desk.here / "bundle")) == 2
    assert (desk.here / "bundle" / INDEX).read_bytes() != index
    assert said(rows(desk, file)) == [(0, "ok")]


@pytest.mark.parametrize("held", ["launcher.json", "notes.txt"])
def test_a_folder_that_is_no_bundle_is_refused_and_stays_as_it_is(bench, desk, held):
    (desk.here / "bundle").mkdir()
    (desk.here / "bundle" / held).write_text("mine")
    with pytest.raises(UsageError, match="received bundle, which is something else"):
        add(bench, desk, ["ok"])
    assert [path.name for path in (desk.here / "bundle").iterdir()] == [held]


@pytest.mark.parametrize("content", ["", "[]", '{"files": []}', '{"entries": [1]}'])
def test_a_list_of_another_kind_is_refused_and_stays_as_it_is(bench, desk, content):
    index = desk.here / "bundle" / INDEX
    index.parent.mkdir()
    index.write_text(content)
    with pytest.raises(UsageError, match=r"bundle\.json of bundle: expected the list of a bundle, received"):
        add(bench, desk, ["ok"])
    assert [path.read_text() for path in index.parent.iterdir()] == [content]


def test_a_bundle_that_found_no_place_is_gone_on_with(bench, desk, monkeypatch):
    def full(source, target, **_):
        target.mkdir(parents=True)
        raise OSError(28, "No space left on device", str(target))

    copytree, file = shutil.copytree, bench.plan(["ok"])
    monkeypatch.setattr(node.shutil, "copytree", full)
    with pytest.raises(OSError, match="No space left"):
        node.add(file, bench.made.slots, bench.made.sources, launcher(), desk)
    monkeypatch.setattr(node.shutil, "copytree", copytree)
    assert list((desk.here / "bundle" / "slots").iterdir()) == []
    add(bench, desk, ["ok"])
    assert run(desk)[0] == 0


def test_a_library_that_needs_another_one_is_refused(tmp_path):
    source = tmp_path / "needy.cpp"
    source.write_text("extern int other(); int needy() { return other(); }\n")
    other = tmp_path / "other.cpp"
    other.write_text("int other() { return 1; }\n")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", tmp_path / "libother.so", other], check=True)
    built = tmp_path / "needy.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", built, source, f"-L{tmp_path}", "-lother"], check=True)
    with pytest.raises(BundleError, match=r"received \['libother.so'\]"):
        node.check_self_contained(built)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", built, other], check=True)
    node.check_self_contained(built)
