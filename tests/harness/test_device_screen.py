"""Screens on ranks that are real processes without GPUs: what they leave when all goes well, and when one does not."""

import json
import signal
from pathlib import Path

import pytest

from afdep import Machine
from harness.device import launch
from tests.harness.conftest import Bench, make_bench
from tests.harness.test_interruption import PATIENCE_S, drive, processes_in, wait_until
from tests.harness.test_mps import Control

GPUS = ("backend=upstream", "backend.pairs=2", "backend.device.wait_timeout_s=1", "layout=1A2F")
QUICK = ("layout=1A1F", "backend.deterministic=true", "backend.pairs=1")
"""Two processes side by side, for what does not depend on their order."""


def screen(bench: Bench, *texts: str) -> int:
    return bench.screen(*GPUS, *texts)


@pytest.fixture(scope="module")
def measured_ranks(tmp_path_factory):
    """A bench with one finished screen of two arms on three ranks each."""
    bench = make_bench(tmp_path_factory.mktemp("ranks") / "repository")
    assert screen(bench) == 0
    bench.first_lines = list(bench.lines)
    return bench


def test_every_rank_of_every_cell_has_a_record(measured_ranks):
    found = {(one.arm, one.pair, one.tokens, one.rank, one.role, one.status) for one in measured_ranks.records()}
    assert len(found) == len(measured_ranks.records()) == 2 * 2 * 2 * 3
    assert {(rank, role) for _, _, _, rank, role, _ in found} == {(0, "ffn"), (1, "ffn"), (2, "attention")}


def test_a_record_holds_what_its_rank_saw_of_itself(measured_ranks):
    (one,) = [o for o in measured_ranks.records() if (o.arm, o.pair, o.tokens, o.rank) == ("m2n", 0, 8, 1)]
    assert (one.samples_us, one.latency_us) == ((31.5, 31.625, 31.75), 31.625)
    assert (one.loaded_digest, one.loaded_protocol, one.registered_bytes) == (one.native_digest, "m2n", 4096)
    assert (one.backend, one.module_path, one.safe_path) == ("cuda", "afdep/__init__.py", True)
    assert (one.host_us, one.host_calls, one.proofs_passed) == (1.5, 4.0, 3)
    assert json.loads(one.observed)["device"] == "NVIDIA H200"


def test_a_cell_of_ranks_is_the_maximum_over_the_attention_ranks(measured_ranks):
    assert "22.6 (32.6," in measured_ranks.text  # base + 8 / 16 + rank 2 + the middle of three steps


def test_the_two_processes_of_a_pair_run_in_both_orders(measured_ranks):
    lines = [line for line in measured_ranks.first_lines if line.startswith("[") and "T=8" in line]
    assert [" m2n " in line for line in lines] == [True, False, False, True]


def test_a_second_screen_of_ranks_measures_nothing(measured_ranks):
    before = measured_ranks.record_files()
    assert screen(measured_ranks) == 0
    assert "nothing to measure" in measured_ranks.text
    assert measured_ranks.record_files() == before


ENDS = {
    "raises": ({"do": "raise", "word": "wrong bit"}, "rank 1: RuntimeError: wrong bit"),
    "is not exact": ({"do": "raise", "word": "row 3", "when": "prove"}, "rank 1: RuntimeError: row 3"),
    "killed": ({"do": "kill"}, "rank 1: signal: ended by SIGKILL"),
    "aborts": ({"do": "abort"}, "rank 1: signal: ended by SIGABRT"),
    "leaves": ({"do": "exit", "code": 0}, "ended by the worker: another rank was gone"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_rank_that_ends_fails_its_cells_with_the_reason_and_no_peer_stays(bench, end):
    wish, reason = ENDS[end]
    bench.behave({"arm": "m2n", "tokens": 8, "rank": 1, **wish})
    assert screen(bench, *QUICK) == 4
    states = {(one.arm, one.tokens): one.status for one in bench.records()}
    assert states == {("m2n", 1): "ok", ("m2n", 8): "failed", ("afdep@bd4db4da", 1): "ok", ("afdep@bd4db4da", 8): "ok"}
    reasons = {one.fail_reason for one in bench.records() if one.status == "failed"}
    assert all(reason in one for one in reasons), reasons
    assert not processes_in(bench.root)


def test_peers_of_a_dead_rank_are_ended_and_say_so(bench):
    bench.behave({"arm": "m2n", "tokens": 1, "rank": 0, "do": "kill"})
    assert screen(bench, *QUICK, "tokens=[1]") == 4
    (reason,) = {one.fail_reason for one in bench.records() if one.status == "failed"}
    assert "rank 1: ended by the worker: another rank was gone for 2 s" in reason


def test_ranks_that_hang_end_with_the_time_of_their_process(bench):
    bench.behave({"arm": "m2n", "tokens": 1, "rank": 1, "do": "hang"})
    assert screen(bench, *QUICK, "tokens=[1]", "launcher.timeout_s=4") == 4
    reasons = {one.fail_reason.partition(";")[0] for one in bench.records() if one.status == "failed"}
    assert reasons == {"timeout: still running after 4 s"}
    wait_until(lambda: not processes_in(bench.root), "the end of every rank")


def test_only_failed_processes_of_ranks_run_again(bench):
    bench.behave({"arm": "m2n", "tokens": 8, "rank": 1, "do": "raise"})
    assert [screen(bench, *QUICK), screen(bench, *QUICK)] == [4, 4]
    assert "2 processes of 2 cells, 1 to run" in bench.text
    assert {(one.arm, one.attempt) for one in bench.records()} == {("m2n", 1), ("m2n", 2), ("afdep@bd4db4da", 1)}


def test_ranks_do_not_outlive_a_run_that_is_killed_and_the_next_run_resumes(bench):
    arrived, go = bench.root.parent / "arrived", bench.root.parent / "go"
    wish = {"arm": "afdep@bd4db4da", "tokens": 8, "rank": 0, "do": "wait"}
    bench.behave({**wish, "arrived": str(arrived), "go": str(go)})
    driver = drive(bench, *GPUS, *QUICK, "launcher.jobs=1")
    try:
        wait_until(arrived.exists, "the second process")
        assert len(processes_in(bench.root)) == 3  # a worker and two ranks
        driver.send_signal(signal.SIGKILL)
        wait_until(lambda: not processes_in(bench.root), "the end of every rank")
    finally:
        driver.kill()
        driver.communicate(timeout=PATIENCE_S)
    go.touch()
    assert screen(bench, *QUICK) == 0
    assert "2 processes of 2 cells, 1 to run" in bench.text


VOIDS = {
    "another library": ({"digest": "n00000000"}, "digest: the plan expects"),
    "another machine": ({"facts": {"device": "NVIDIA A100"}}, "machine: the plan expects h200-nvlink"),
}


@pytest.mark.parametrize("kind", VOIDS)
def test_one_rank_that_is_not_as_planned_voids_the_process(bench, kind):
    wish, reason = VOIDS[kind]
    bench.behave({"arm": "m2n", "rank": 1, "do": "report", **wish})
    assert screen(bench, *QUICK) == 3
    voids = [one for one in bench.records() if one.arm == "m2n"]
    assert {(one.status, one.latency_us) for one in voids} == {("void", None)}
    assert all(one.void_reason.startswith(reason) for one in voids)


H200 = Machine.load("h200-nvlink").constants()
TWO_HOPS_US = 2 * H200["nvlink_latency_ns"] / 1e3
IMPOSSIBLE = {
    "two hops": (1, 0.25, f"impossible: 0.375 us for a round trip, whose 2 hops take {TWO_HOPS_US:.3f} us"),
    "the link": (2048, 9.0, f"GB/s one way over a link of {H200['nvlink_gb_per_s']:.0f} GB/s"),
}


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_a_figure_that_no_machine_gives_is_void_and_kept(bench, kind):
    tokens, us, reason = IMPOSSIBLE[kind]
    bench.behave({"arm": "afdep@bd4db4da", "tokens": tokens, "rank": 1, "do": "take", "us": us})
    assert screen(bench, *QUICK, f"tokens=[{tokens}]") == 3
    voids = [one for one in bench.records() if one.status == "void"]
    assert {one.arm for one in voids} == {"afdep@bd4db4da"}
    assert all(reason in one.void_reason for one in voids)
    assert all(one.samples_us is not None for one in voids)


def test_a_library_that_is_not_installed_voids_its_arm_alone(bench):
    assert screen(bench, *QUICK, "arm=[m2n,afdep,deepep]", "tokens=[1]") == 0
    assert {one.void_reason for one in bench.records() if one.arm == "deepep"} == {"deep_ep is not installed"}
    assert {one.status for one in bench.records() if one.arm != "deepep"} == {"ok"}


def test_a_rank_gets_its_place_and_no_variable_beyond_the_list():
    given = {"PATH": "/bin", "AFDEP_UNION_NOTIFY": "1", "CUDA_VISIBLE_DEVICES": "0,1", "NCCL_NVLS_ENABLE": "1"}
    start = launch.Start(Path("job"), Path("/slot"), [{"SHARE": str(rank)} for rank in range(4)], 1.0, Path(), given)
    found = launch.environment(start, 3, 99)
    assert (found["RANK"], found["WORLD_SIZE"], found["CUDA_VISIBLE_DEVICES"]) == ("3", "4", "0,1")
    assert (found["NCCL_NVLS_ENABLE"], found["TORCH_SYMM_MEM_DISABLE_MULTICAST"]) == ("0", "1")
    assert found["SHARE"] == "3"
    assert "AFDEP_UNION_NOTIFY" not in found


SHARED = ("backend=upstream", "backend.pairs=2", "layout=2A2F", "backend.ranks_per_gpu=2", "tokens=[1]")


def daemon_of(bench: Bench, behaviour: str) -> Control:
    """A control program of MPS for the processes of a bench, which inherit no word of how it behaves."""
    control = Control(bench.root.parent, behaviour)
    program = bench.root.parent / "nvidia-cuda-mps-control"
    told = "".join(f"export {name}='{control.environ[name]}'\n" for name in ("FAKE", "FAKE_PIDS"))
    program.write_text(program.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{told}"))
    bench.environ["PATH"] = f"{program.parent}:{bench.environ['PATH']}"
    return control


def test_ranks_that_share_gpus_tell_how_far_they_have_come_and_leave_no_daemon(bench):
    control = daemon_of(bench, "good")
    assert bench.screen(*SHARED) == 0
    stages = [line.partition(": ")[2] for line in bench.lines if line.startswith("  2A2F 2048 m2n pair 1/2: ")]
    assert stages[0].startswith("may take its GPUs")
    assert stages[2].startswith("starts 4 ranks on GPUs 0 (50%), 0 (50%), 1 (50%), 1 (50%) under MPS")
    assert [words.split(",")[0] for words in stages[3:]] == ["all ranks have imported", "all ranks are open"]
    assert control.daemons() == []


def test_without_a_daemon_every_process_is_void_with_its_words_and_says_so_at_once(bench):
    daemon_of(bench, "refuses")
    assert bench.screen(*SHARED) == 3
    assert {(one.status, one.void_reason) for one in bench.records()} == {("void", "needs MPS: MPS is not supported")}
    assert sum(": void: needs MPS: MPS is not supported" in line for line in bench.lines) == 4


def test_no_daemon_outlives_a_process_that_is_ended_for_its_time(bench):
    control = daemon_of(bench, "good")
    bench.behave({"arm": "m2n", "tokens": 1, "rank": 1, "do": "hang"})
    assert bench.screen(*SHARED, "launcher.timeout_s=4") == 4
    assert any("m2n pair 1/2: failed: timeout: still running after 4 s" in line for line in bench.lines)
    wait_until(lambda: not control.daemons(), "the end of every daemon")
