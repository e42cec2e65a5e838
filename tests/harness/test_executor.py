"""Real processes: what is measured, what is resumed, and what every way of dying leaves behind."""

import itertools

import pytest

from harness import process
from tests.harness.conftest import make_bench

DEATHS = {
    "raises": ({"do": "raise", "word": "left its path"}, "RuntimeError: left its path"),
    "is not exact": ({"do": "raise", "word": "row 3 differs", "when": "prove"}, "RuntimeError: row 3 differs"),
    "memory": ({"do": "memory"}, "MemoryError: no memory left"),
    "exit 3": ({"do": "exit", "code": 3}, "exit code 3; last on stderr: none"),
    "exit 0": ({"do": "exit", "code": 0}, "no output: exit code 0 without a record; last on stderr: none"),
    "killed": ({"do": "kill"}, "signal: ended by SIGKILL; last on stderr: none"),
    "aborts": ({"do": "abort"}, "signal: ended by SIGABRT; last on stderr: none"),
}
SEATS = list(itertools.product(("1A1F", "2A1F", "1A2F"), ("m2n", "afdep@bd4db4da", "afdep")))


@pytest.fixture(scope="module")
def graveyard(tmp_path_factory):
    """One screen in which each process but two dies in a way of its own."""
    bench = make_bench(tmp_path_factory.mktemp("graveyard") / "repository")
    wishes = zip(SEATS, DEATHS.values(), strict=False)
    bench.behave(*({"layout": layout, "arm": arm, "tokens": 8, **wish} for (layout, arm), (wish, _) in wishes))
    assert bench.screen("layout=[1A1F,2A1F,1A2F]", "arm=[m2n,afdep@bd4db4da,afdep]") == 4
    return bench


def test_a_screen_measures_every_cell_of_both_arms(measured):
    assert {(one.arm, one.tokens, one.status) for one in measured.records()} == {
        (arm, tokens, "ok") for arm in ("m2n", "afdep@bd4db4da") for tokens in (1, 8)
    }


def test_a_record_holds_every_rank_its_samples_and_its_identity(measured):
    one, other = [one for one in measured.records() if (one.arm, one.tokens) == ("m2n", 1)]
    assert [(one.rank, one.role), (other.rank, other.role)] == [(0, "ffn"), (1, "attention")]
    assert one.reducer == "median of samples"
    assert len(one.samples_us) == one.num_exchanges == 10
    assert one.latency_us == (one.samples_us[4] + one.samples_us[5]) / 2
    assert one.loaded_digest == one.native_digest
    assert (one.proofs_passed, one.registered_bytes, one.safe_path) == (1, 4096, True)


def test_no_record_holds_a_path_of_this_machine(measured):
    assert all(str(measured.root) not in str(one) for one in measured.records())


def test_progress_is_one_line_per_cell(measured):
    lines = [line for line in measured.first_lines if line.startswith("[")]
    assert len(lines) == 4
    assert lines[-1].startswith("[4/4] 1A1F 2048 bf16 random T=")


def test_a_cell_is_the_maximum_over_its_attention_ranks(bench):
    assert bench.screen("layout=2A2F", "tokens=[16]", "arm=[m2n,afdep]") == 0
    line = next(line for line in bench.lines if " m2n " in line and line.startswith("["))
    assert "34.6 us" in line  # base 30 + tokens / 16 + rank 3 + the middle of 10 steps of 1/8
    assert "24.6 (34.6" in bench.text


def test_nothing_remains_of_slots_and_scratch(measured):
    assert list(measured.out("trees").iterdir()) == list(measured.out("scratch").iterdir()) == []


def test_a_second_run_measures_nothing_and_says_so(measured):
    before = measured.record_files()
    measured.lines.clear()
    assert measured.screen() == 0
    assert "nothing to measure: every cell of this plan is recorded" in measured.text
    assert measured.record_files() == before


def test_a_damaged_file_is_measured_again_and_left_in_place(bench):
    assert bench.screen() == 0
    damaged = bench.record_files()[0]
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert bench.screen() == 0
    assert len(bench.record_files()) == 3
    assert f"quarantined: {damaged.name}" in bench.text


@pytest.mark.parametrize("name", DEATHS)
def test_a_process_that_dies_leaves_failed_records_with_the_reason(graveyard, name):
    layout, arm = SEATS[list(DEATHS).index(name)]
    (failed,) = [one for one in graveyard.records() if (one.layout, one.arm, one.tokens) == (layout, arm, 8)]
    assert (failed.status, failed.latency_us) == ("failed", None)
    assert failed.fail_reason == DEATHS[name][1]


def test_the_death_of_one_process_harms_no_other(graveyard):
    alive = SEATS[len(DEATHS) :]
    ok = {(one.layout, one.arm) for one in graveyard.records() if (one.tokens, one.status) == (8, "ok")}
    assert ok == set(alive)


def test_cells_finished_before_an_exception_count(graveyard):
    states = {(one.layout, one.arm, one.tokens): one.status for one in graveyard.records()}
    assert (states["1A1F", "m2n", 1], states["1A1F", "m2n", 8]) == ("ok", "failed")


def test_every_failure_is_listed_with_its_reason_and_record(graveyard):
    assert len([line for line in graveyard.lines if line.startswith("failed: ")]) == len(DEATHS)
    failed = {one.process_key for one in graveyard.records() if one.status == "failed"}
    files = [path.name for path in graveyard.record_files() if path.name.partition("-")[0] in failed]
    assert len(files) == len(DEATHS)
    assert all(f"  record {name}, all of stderr in " in graveyard.text for name in files)


def test_a_hanging_process_ends_with_its_time(bench):
    bench.behave({"arm": "m2n", "tokens": 1, "do": "hang"})
    assert bench.screen("tokens=[1]", "launcher.timeout_s=3") == 4
    (failed,) = [one for one in bench.records() if one.arm == "m2n"]
    assert failed.fail_reason.startswith("timeout: still running after 3 s")


@pytest.mark.parametrize("order", ["before", "after"])
def test_complete_records_count_however_their_process_ended(bench, order):
    bench.behave({"arm": "m2n", "tokens": 8, "do": "abort late", "order": order})
    assert bench.screen() == 0
    assert {(one.status, one.attempt) for one in bench.records()} == {("ok", 1)}
    assert "warning, recorded in full before it ended: 1A1F 2048 m2n: signal: ended by SIGABRT" in bench.text
    assert "4 of 4 planned cells count" in bench.text


def test_incomplete_records_do_not_count_however_late_their_process_ended(bench):
    late = {"arm": "m2n", "do": "abort late", "order": "after", "tokens": 1}
    bench.behave(late, {"arm": "m2n", "tokens": 8, "do": "raise"})
    assert bench.screen() == 4
    assert "failed: 1A1F 2048 m2n: signal: ended by SIGABRT" in bench.text
    assert "warning" not in bench.text


def test_a_failed_process_runs_again(bench):
    bench.behave({"arm": "m2n", "tokens": 1, "do": "raise"})
    assert [bench.screen("tokens=[1]"), bench.screen("tokens=[1]")] == [4, 4]
    assert [one.attempt for one in bench.records() if one.arm == "m2n"] == [1, 2]
    assert {one.attempt for one in bench.records() if one.status == "ok"} == {1}


@pytest.mark.parametrize(
    ("returncode", "timed_out", "words"),
    [
        (-9, None, "SIGKILL"),
        (-9, 5, "timeout: still running after 5 s"),
        (1, None, "exit code 1"),
        (0, None, "no output"),
    ],
)
def test_an_ending_is_classified(returncode, timed_out, words):
    assert words in process.ending(returncode, timed_out, "last words")
    assert process.ending(returncode, timed_out, "last words").endswith("last on stderr: last words")


TRACEBACK = "Traceback (most recent call last):\n  File x\n    raise\n"


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (f"warning\n{TRACEBACK}a.BuildError: it broke\nMend it.\n", ("a.BuildError: it broke", "Mend it.")),
        (f"{TRACEBACK}E: 1\n\nDuring handling:\n\n{TRACEBACK}F: 2", ("F: 2", "")),
        ("one\nSegmentation fault\n", ("Segmentation fault", "")),
        ("Traceback (most recent call last):\n  File x\n", ("File x", "")),
        ("", ("", "")),
    ],
    ids=["two lines", "chained", "no traceback", "cut", "silent"],
)
def test_last_words_are_those_of_the_last_error(stderr, said):
    assert process.last_words(stderr) == said


def test_the_last_line_is_the_last_that_says_something():
    assert process.last_line("one\ntwo\n\n  \n") == "two"
    assert process.last_line("") == ""
