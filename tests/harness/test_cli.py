"""The command line: exit statuses, and every error in two lines."""

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import reduce
from pathlib import Path

import pytest

from harness import cli, usage
from harness.compose import CONF_DIR, compose
from harness.overrides import options
from harness.verbs import claims, doctor
from harness.words import as_word

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["screen", "tokens=1,8"], "Write tokens=[1,8]."),
        (["screen", "layout=4:4"], "YAML reads as the int 244"),
        (["screen", "-m", "tokens=1"], "received the multirun flag"),
        (["claims", "kind=latencies"], "did you mean latency"),
        (["status", "launcher.out=README.md"], "out folder README.md: expected a folder, received the file"),
        (["screen", "launcher.out=README.md/below"], "README.md/below: expected a folder, received the file"),
        (["status", "launcher.out=out/none-here"], "expected at least one, received none"),
    ],
)
def test_a_usage_error_is_two_lines_and_status_4(capsys, arguments, message):
    assert cli.main(arguments) == 4
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "verb: expected one, received ''"),
        (["scren"], "did you mean screen? Valid: screen, "),
    ],
)
def test_a_missing_verb_is_status_4_with_the_verbs_and_two_lines(capsys, arguments, message):
    assert cli.main(arguments) == 4
    *listing, _, problem, next_step = capsys.readouterr().err.splitlines()
    assert message in f"{problem} {next_step}"
    assert {line.split()[0] for line in listing if line[:1].strip()} == {"python", *cli.VERBS, "help"}


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["-h"], ["screen", "--help"]])
def test_help_names_every_verb_with_its_purpose_and_keys(capsys, arguments):
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert all(re.search(rf"^{verb} +[A-Z].*\.$\n +keys: ", text, re.MULTILINE) for verb in cli.VERBS)
    assert "launcher.jobs" in text


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_key_that_help_offers_is_accepted(verb):
    config = compose(verb, [])
    for key in usage.keys(verb):
        names = options(CONF_DIR, key)
        value = names[0] if names else reduce(lambda level, part: level[part], key.split("."), config)
        compose(verb, [f"{key}={json.dumps(value)}"])


def test_an_unexpected_error_is_two_lines_and_keeps_its_traceback(capsys, monkeypatch):
    monkeypatch.setattr(claims, "run", lambda *_: as_word.nowhere)
    assert cli.main(["claims"]) == 4
    problem, next_step = capsys.readouterr().err.splitlines()
    assert problem.startswith("unexpected AttributeError: ")
    path = Path(next_step.rpartition(" ")[2].rstrip("."))
    assert "as_word.nowhere" in path.read_text()
    path.unlink()
    path.parent.rmdir()


def test_an_unexpected_error_is_two_lines_even_where_the_out_folder_is_a_file(capsys, monkeypatch, tmp_path):
    (tmp_path / "out").write_text("")
    monkeypatch.setattr(cli, "REPOSITORY", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(claims, "run", lambda *_: as_word.nowhere)
    assert cli.main(["claims"]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert len(list(tmp_path.glob("harness-error-*/traceback.txt"))) == 1


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_place_that_takes_no_file_is_named_and_is_no_defect(capsys, monkeypatch, number):
    def unwritable(*_):
        raise OSError(number, os.strerror(number), "out/hunts")

    monkeypatch.setattr(claims, "run", unwritable)
    assert cli.main(["claims"]) == 4
    problem, next_step = capsys.readouterr().err.splitlines()
    assert problem == f"out/hunts: expected a place to read and write, received {os.strerror(number)!r}."
    assert "launcher.out=FOLDER" in next_step


def test_an_interrupt_says_how_to_resume(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(claims, "run", interrupted)
    assert cli.main(["claims"]) == 4
    assert "Run the same command again to resume." in capsys.readouterr().err


def test_the_module_runs_a_verb_and_returns_its_status():
    done = subprocess.run(
        [sys.executable, "-m", "harness", "claims"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "| latency " in done.stdout


def test_no_claim_is_decided_by_the_simulator(measured):
    (measured.root / "records" / "published").mkdir(parents=True)
    published = ROOT / "records" / "published" / "claims.csv"
    (measured.root / "records" / "published" / "claims.csv").write_bytes(published.read_bytes())
    measured.lines.clear()
    assert claims.run(["kind=memory"], measured.around) == 0
    assert len([line for line in measured.lines if line.startswith("- ") and " (needs " in line]) == 7
    assert measured.lines[-1] == "Device records kept: 0; simulated figures decide no claim."


def test_the_doctor_finds_what_is_here(measured):
    measured.lines.clear()
    assert doctor.run([], measured.around) == 0
    assert any(line.startswith("ok               pyarrow: ") for line in measured.lines)


def test_the_doctor_misses_what_is_not_here(measured, monkeypatch):
    monkeypatch.setitem(doctor.PROGRAMS, "no-such-compiler", True)
    measured.lines.clear()
    assert doctor.run([], measured.around) == 4
    assert "missing          no-such-compiler" in measured.lines
