"""What a child may print or die of beside its events: one failed record at the most, and the run goes on."""

import signal

import pytest

from harness.core import process
from tests.core.conftest import said

LIES = {
    "of another shape": '{"event": "said", "trial": 0}',
    "of a trial": '{"event": "said", "trial": 0, "facts": {"said": "a lie"}}',
    "of a void": '{"event": "void", "reason": "a lie"}',
    "with a guessed word": '{"event": "void", "reason": "a lie", "word": ""}',
    "no object": '["event"]',
}


def printing(line: str) -> tuple[str, ...]:
    """A tool that prints a line, and the beginning of another, ahead of the process."""
    return ("/bin/sh", "-c", f"printf '%s\\nhalf a line' '{line}'; exec \"$@\"", "sh")


@pytest.mark.parametrize("line", LIES.values(), ids=LIES)
def test_a_line_of_a_tool_that_looks_like_an_event_is_none(bench, line):
    (row,) = bench.run(bench.plan(["ok"], tool=printing(line)))
    assert (row.status, row.said) == ("ok", "done 0")


def test_a_trial_that_only_a_tool_speaks_of_has_failed(bench):
    told = printing(LIES["of a trial"])[2].replace('exec "$@"', "exit 3")
    (row,) = bench.run(bench.plan(["ok"], tool=("/bin/sh", "-c", told, "sh")))
    assert (row.status, row.said) == ("failed", "")


def test_a_tool_that_dies_by_a_signal_without_a_name_is_the_failure_of_its_trial(bench):
    rows = bench.run(bench.plan(["ok"], ["ok"], tool=("/bin/sh", "-c", "kill -40 $$", "sh")))
    assert said(rows) == [(0, "failed"), (1, "failed")]
    assert {row.reason for row in rows} == {"signal: ended by signal 40; last on stderr: none"}


def test_five_megabytes_of_error_leave_one_bounded_reason(bench):
    loud = ("/bin/sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 3", "sh")
    (row,) = bench.run(bench.plan(["ok"], tool=loud))
    assert row.status == "failed"
    assert row.reason.startswith("exit code 3; last on stderr: xxx")
    assert len(row.reason) < 1000


def test_an_event_is_known_by_the_word_of_its_process():
    event = '{"event": "ended", "word": "secret"}'
    assert process.hear(event, "secret") == {"event": "ended"}
    assert process.hear(event, "another") is process.hear(event) is None


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_a_process_that_somebody_ends_is_void_and_no_finding(bench, name):
    rows = bench.run(bench.plan(["ok", f"die:{signal.Signals[name].value}", "ok"], ["ok"]))
    assert said(rows) == [(0, "ok"), (1, "void"), (2, "void"), (3, "ok")]
    assert rows[1].reason == f"interrupted: somebody ended the process by {name}"
