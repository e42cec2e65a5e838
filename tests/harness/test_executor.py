"""Real processes: what is measured, what is resumed, and what every way of dying leaves behind."""

import pytest

from harness import process, records

DEATHS = [
    (
        {"do": "raise", "word": "kernel left its path"},
        "exit code 1; last line on stderr: RuntimeError: kernel left its path",
    ),
    ({"do": "memory"}, "MemoryError: no memory left"),
    ({"do": "exit", "code": 3}, "exit code 3; last line on stderr: none"),
    ({"do": "exit", "code": 0}, "no output: exit code 0 without a record"),
    ({"do": "kill"}, "signal: ended by SIGKILL"),
    ({"do": "abort"}, "signal: ended by SIGABRT"),
]


def test_a_screen_measures_every_cell_of_both_arms(measured):
    assert {(one.arm, one.tokens, one.status) for one in measured.records()} == {
        (arm, tokens, "ok") for arm in ("m2n", "afdep@bd4db4da") for tokens in (1, 8)
    }


def test_a_record_holds_every_rank_its_samples_and_its_identity(measured):
    one = measured.records()[0]
    assert (one.rank, one.role, one.reducer) == (1, "attention", "median of samples")
    assert len(one.samples_us) == one.num_exchanges == 3
    assert one.latency_us == sorted(one.samples_us)[1]
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
    assert "34.1 us" in line  # base 30 + tokens / 16 + rank 3 + median step 1/8
    assert "24.1 (34.1" in bench.text


def test_nothing_remains_of_slots_and_scratch(measured):
    assert list(measured.out("trees").iterdir()) == list(measured.out("scratch").iterdir()) == []


def test_a_second_run_measures_nothing_and_says_so(bench):
    assert bench.screen() == 0
    before = bench.record_files()
    bench.lines.clear()
    assert bench.screen() == 0
    assert "nothing to measure: every cell of this plan is recorded" in bench.text
    assert bench.record_files() == before


def test_a_damaged_file_is_measured_again_and_left_in_place(bench):
    assert bench.screen() == 0
    damaged = bench.record_files()[0]
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert bench.screen() == 0
    assert len(bench.record_files()) == 3
    assert f"quarantined: {damaged.name}" in bench.text


@pytest.mark.parametrize(("wish", "reason"), DEATHS, ids=[f"{wish['do']}{wish.get('code', '')}" for wish, _ in DEATHS])
def test_a_process_that_dies_leaves_failed_records_with_the_reason(bench, wish, reason):
    bench.behave({"arm": "m2n", "tokens": 1, **wish})
    assert bench.screen("tokens=[1]") == 4
    states = {one.arm: (one.status, one.fail_reason) for one in bench.records()}
    assert states["afdep@bd4db4da"] == ("ok", None)
    assert states["m2n"][0] == "failed"
    assert reason.rpartition("stderr: ")[2].removeprefix("no output: ") in f"{states['m2n'][1]} {bench.text}"
    assert f"failed: 1A1F 2048 m2n: {reason}" in bench.text or reason in bench.text


def test_a_hanging_process_ends_with_its_time(bench):
    bench.behave({"arm": "m2n", "tokens": 1, "do": "hang"})
    assert bench.screen("tokens=[1]", "launcher.timeout_s=2") == 4
    (failed,) = [one for one in bench.records() if one.status == "failed"]
    assert failed.fail_reason.startswith("timeout: still running after 2 s")


def test_cells_finished_before_a_failure_count(bench):
    bench.behave({"arm": "m2n", "tokens": 8, "do": "raise"})
    assert bench.screen() == 4
    assert {one.tokens: one.status for one in bench.records() if one.arm == "m2n"} == {1: "ok", 8: "failed"}
    assert "21.2 (31.2" in bench.text


def test_an_exchange_that_is_not_exact_is_never_timed(bench):
    bench.behave({"arm": "m2n", "tokens": 1, "when": "prove", "do": "raise", "word": "row 3 differs"})
    assert bench.screen("tokens=[1]") == 4
    (failed,) = [one for one in bench.records() if one.arm == "m2n"]
    assert (failed.latency_us, failed.fail_reason) == (None, "RuntimeError: row 3 differs")


def test_every_failure_is_listed_with_its_reason_and_record(bench):
    wishes = [("m2n", {"do": "raise"}), ("afdep@bd4db4da", {"do": "kill"}), ("afdep", {"do": "exit", "code": 7})]
    bench.behave(*({"arm": arm, "tokens": 1, **wish} for arm, wish in wishes))
    assert bench.screen("tokens=[1]", "arm=[m2n,afdep@bd4db4da,afdep]") == 4
    listed = [line for line in bench.lines if line.startswith("failed: ")]
    assert len(listed) == 3
    names = [path.name for path in bench.record_files()]
    assert all(any(name in line for name in names) for line in listed)


def test_a_failed_process_runs_again(bench):
    bench.behave({"arm": "m2n", "tokens": 1, "do": "raise"})
    assert [bench.screen("tokens=[1]"), bench.screen("tokens=[1]")] == [4, 4]
    assert [one.attempt for one in bench.records() if one.status == "failed"] == [1, 2]
    assert len([one for one in bench.records() if one.status == "ok"]) == 1


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
    assert process.ending(returncode, timed_out, "last words").endswith("last line on stderr: last words")


def test_the_last_line_is_the_last_that_says_something():
    assert process.last_line("one\ntwo\n\n  \n") == "two"
    assert process.last_line("") == ""


def test_records_of_another_plan_do_not_count(bench):
    assert bench.screen("tokens=[1]") == 0
    first = len(bench.record_files())
    bench.root.joinpath("vendor", "elastic", "word.h").write_text("// two\n")
    assert bench.screen("tokens=[1]") == 0
    assert len(bench.record_files()) == 2 * first
    assert len({one.native_digest for one in records.read(bench.record_files()).records}) == 2
