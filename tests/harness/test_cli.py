"""The command line: exit statuses, and every error in two lines."""

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

from harness import cli, study
from harness.config.compose import compose, options
from harness.desk import status, usage
from harness.desk.desk import print_line, real

ROOT = Path(__file__).resolve().parents[2]
DESK = real()
HELPED = [
    *((name, "run") for name in study.names()),
    *(("screen", action) for action in cli.ACTIONS if action not in ("run", "plan")),
    *((name, None) for name in cli.COMMANDS),
]
"""A name and an action for each configuration that there is."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scren"], "name: expected one, received 'scren'.\ndid you mean screen? Valid: "),
        (
            ["screen", "archve"],
            "action: expected one of screen, received 'archve'.\ndid you mean archive? Valid: run, ",
        ),
        (["claims", "report"], "'report': expected key=value"),
        (["screen", "tokens=1,8"], "Write tokens=[1,8]."),
        (["screen", "layout=4:4"], "YAML reads as the int 244"),
        (["screen", "-m", "tokens=1"], "received the multirun flag"),
        (["claims", "kind=latencies"], "did you mean latency"),
        (["status", "launcher.out=README.md"], "out folder README.md: expected a folder, received the file"),
        (["screen", "launcher.out=README.md/below"], "README.md/below: expected a folder, received the file"),
        (["screen", "launcher.out=/proc/x"], "out folder /proc/x: expected a place to write"),
        (["screen", "report", "launcher.out=out/none-here"], "expected records, received nothing of that name"),
        (["screen", "archive"], "name: expected a value, received none.\nWrite name=VALUE."),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_a_usage_error_is_two_lines_and_status_4(capsys, arguments, message):
    assert cli.main(arguments) == 4
    out, error = capsys.readouterr()
    assert message in error
    assert len(error.splitlines()) == 2
    assert out == ""


def test_nothing_typed_shows_what_there_is_and_is_an_error(capsys):
    assert cli.main([]) == 4
    assert "Studies:" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["help", "--help", "-h"])
def test_help_names_every_study_action_and_command_with_its_purpose(capsys, word):
    assert cli.main([word]) == 0
    text = capsys.readouterr().out
    for name in (*study.names(), *cli.COMMANDS):
        assert re.search(rf"^  {name} +[A-Z].*\.$", text, re.MULTILINE), name
    for name in (*cli.ACTIONS, "help"):
        assert re.search(rf"^  {name} +[a-z]", text, re.MULTILINE), name


@pytest.mark.parametrize("words", [["help"], ["--help"], ["run", "help"], ["tokens=[1]", "-h"]], ids=" ".join)
def test_a_name_with_help_shows_its_keys_and_runs_nothing(capsys, words):
    assert cli.main(["screen", *words]) == 0
    text = capsys.readouterr().out
    assert "afdep-bench screen run key=value..." in text
    assert "  launcher.jobs=2  " in text


@pytest.mark.parametrize(("name", "action"), HELPED, ids=str)
def test_every_key_that_help_offers_has_a_meaning_and_is_accepted(name, action):
    primary = usage._primary(name, action)
    config = compose(primary, [], DESK.conf)
    keys = {key: doc for key, _, doc in usage.keys(name, primary, DESK)}
    assert [key for key, doc in keys.items() if not doc.meaning] == []
    groups = [key for key in keys if options(DESK.conf, key) and isinstance(config.get(key), dict | None)]
    values = [key for key in keys if key not in groups]
    found = {key: reduce(lambda level, part: level[part], key.split("."), config) for key in values}
    found = {key: one for key, one in found.items() if not isinstance(one, dict)}
    compose(primary, [f"{key}={one if one == '???' else json.dumps(one)}" for key, one in found.items()], DESK.conf)
    for group in groups:
        compose(primary, [f"{group}={options(DESK.conf, group)[0]}"], DESK.conf)


@pytest.fixture
def own(tmp_path):
    """The words of a desk whose files lie in a folder of its own."""
    return replace(DESK, here=tmp_path)


def broken(*_):
    return cli.nowhere


def test_an_unexpected_error_is_two_lines_and_keeps_its_traceback(capsys, monkeypatch, own):
    monkeypatch.setattr(status, "claims", broken)
    assert cli.main(["claims"], own) == 4
    problem, next_step = capsys.readouterr().err.splitlines()
    assert problem.startswith("unexpected AttributeError: ")
    path = Path(next_step.rpartition(" ")[2].rstrip("."))
    assert path.is_relative_to(own.here / "out" / "errors")
    assert "cli.nowhere" in path.read_text()


def test_an_unexpected_error_is_two_lines_even_where_the_out_folder_is_a_file(capsys, monkeypatch, own, tmp_path):
    (tmp_path / "out").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(status, "claims", broken)
    assert cli.main(["claims"], own) == 4
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert len(list(tmp_path.glob("harness-error-*/traceback.txt"))) == 1


PLACES = [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.ENAMETOOLONG]


@pytest.mark.parametrize("number", PLACES, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", ["out/plans", None], ids=["named", "not named"])
def test_a_place_that_takes_no_file_is_named_and_is_no_defect(capsys, monkeypatch, own, number, name):
    def unwritable(*_):
        raise OSError(number, os.strerror(number), name)

    monkeypatch.setattr(status, "claims", unwritable)
    assert cli.main(["claims", "launcher.out=elsewhere"], own) == 4
    problem, next_step = capsys.readouterr().err.splitlines()
    named = name or "folder elsewhere"
    assert problem == f"{named}: expected a place to read and write, received {os.strerror(number)!r}."
    assert "launcher.out=FOLDER" in next_step


def test_a_tree_that_does_not_copy_is_two_short_lines(capsys, monkeypatch, own):
    def full(*_):
        raise shutil.Error([(f"from{index}", f"out/trees/to{index}", "No space left") for index in range(999)])

    monkeypatch.setattr(status, "claims", full)
    assert cli.main(["claims"], own) == 4
    problem, _ = capsys.readouterr().err.splitlines()
    assert problem == "out/trees/to0: expected a place to read and write, received 'No space left'."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1], ids=lambda s: s.name)
def test_a_signal_has_a_status_of_its_own_and_says_how_to_go_on(capsys, monkeypatch, own, number):
    monkeypatch.setattr(status, "claims", lambda *_: os.kill(os.getpid(), number))
    assert cli.main(["claims"], own) == 128 + number
    problem, next_step = capsys.readouterr().err.splitlines()
    assert problem.startswith(f"interrupted by {number.name}: ")
    assert next_step == "Run the same command again to go on."


def python(*arguments: str, cwd: Path = ROOT, **more) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False, **more)


@pytest.fixture
def trap(tmp_path):
    """A folder whose files have the names of modules of the standard library."""
    for name in ("statistics", "random", "json", "shlex"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    return tmp_path


CONSOLE = ("-P", "-c", "from harness.cli import console; console()")
"""What the installed command does."""


@pytest.mark.parametrize("command", [("-m", "harness"), ("-P", "-m", "harness"), CONSOLE], ids=" ".join)
def test_a_module_of_the_current_folder_is_never_loaded(trap, command):
    done = python(*command, "claims", cwd=trap)
    assert (done.returncode, done.stderr) == (0, "")
    assert "| latency " in done.stdout


def test_the_trap_would_close(trap):
    assert python("-c", "import statistics", cwd=trap).returncode == 9


def test_the_module_runs_in_a_checkout_that_nobody_installed():
    done = subprocess.run([sys.executable, "-m", "harness", "claims"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_lacks_a_character_prints_another_one_behind_the_page(tmp_path):
    words = ["screen", "report", f"source={ROOT}/records/screen/first-light", f"to={tmp_path}/page.md"]
    done = python("-m", "harness", *words, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "22.6 (33.2, ?31.9%)" in done.stdout
    assert "22.6 (33.2, \u221231.9%)" in (tmp_path / "page.md").read_text("utf-8")


def test_a_terminal_keeps_the_characters_that_it_has(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", stream)
    print_line("\u221231.9% in \u00b5s")
    assert stream.buffer.getvalue() == b"?31.9% in \xb5s\n"


def test_output_that_was_closed_is_no_finding_and_no_crash():
    closed = subprocess.run(
        f"{sys.executable} -m harness claims >&-", shell=True, cwd=ROOT, capture_output=True, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")


def test_a_reader_that_has_gone_ends_the_command_without_a_word():
    command = f"{sys.executable} -m harness claims | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (141, "")


def test_no_claim_is_decided_by_the_simulator(measured):
    (measured.root / "records" / "published").mkdir(parents=True, exist_ok=True)
    measured.lines.clear()
    assert status.claims(["kind=memory"], measured.desk) == 0
    assert len([line for line in measured.lines if line.startswith("- ") and " (needs " in line]) == 7
    assert measured.lines[-1] == "Device records kept: 0; simulated figures decide no claim."


def test_the_doctor_finds_what_is_here(measured):
    measured.lines.clear()
    assert status.doctor([], measured.desk) == 0
    assert any(line.startswith("ok               pyarrow: ") for line in measured.lines)


def test_the_doctor_misses_what_is_not_here(measured, monkeypatch):
    monkeypatch.setitem(status.PROGRAMS, "no-such-compiler", True)
    measured.lines.clear()
    assert status.doctor([], measured.desk) == 4
    assert "missing          no-such-compiler" in measured.lines


def test_a_folder_without_plans_has_no_status(own):
    lines: list[str] = []
    assert status.run([], replace(own, print_line=lines.append)) == 3
    assert len(lines[0].splitlines()) == 2
