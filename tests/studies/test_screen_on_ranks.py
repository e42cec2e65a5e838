"""Screens on ranks that are real processes without GPUs: what they leave when all goes well, and when one does not."""

import itertools
import json
from pathlib import Path

import pytest

from afdep import Machine
from harness.core.launch import _in_group
from harness.core.process import environment
from harness.ranks.exchanges import RoundTrip
from tests.harness.conftest import Bench, make_bench
from tests.harness.test_mps import Control
from tests.harness.watching import processes_in, wait_until

GPUS = ("backend=upstream", "backend.pairs=2", "backend.device.wait_timeout_s=1")
ARMS = ("m2n", "afdep", "afdep@bd4db4da", "afdep[AFDEP_UNION_NOTIFY=1]", "afdep[AFDEP_ALL_RANK_EXIT=1]")


@pytest.fixture(scope="module")
def measured_ranks(tmp_path_factory):
    """A bench with one finished screen of two arms on three ranks each."""
    bench = make_bench(tmp_path_factory.mktemp("ranks") / "repository")
    assert bench.screen(*GPUS, "layout=1A2F") == 0
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
    assert (one.machine, one.gpu_uuid) == ("NVIDIA H200", "GPU-1")
    assert json.loads(one.observed)["device"] == "NVIDIA H200"


def test_a_cell_of_ranks_is_the_maximum_over_the_attention_ranks(measured_ranks):
    assert "| 32.6 (32.6\u201332.6) |" in measured_ranks.text  # base + 8 / 16 + rank 2 + the middle of three steps
    assert "22.6 (22.6\u201322.6; \u221230.7%)" in measured_ranks.text


def test_the_two_processes_of_a_pair_run_in_both_orders(measured_ranks):
    lines = [line for line in measured_ranks.first_lines if line.startswith("[") and "T=8" in line]
    assert [" m2n " in line for line in lines] == [True, False, False, True]


def test_a_second_screen_of_ranks_measures_nothing(measured_ranks):
    before = measured_ranks.record_files()
    assert measured_ranks.screen(*GPUS, "layout=1A2F") == 0
    assert "nothing to measure" in measured_ranks.text
    assert measured_ranks.record_files() == before


H200 = Machine.load("h200-nvlink").constants()
TWO_HOPS_US = 2 * H200["nvlink_latency_ns"] / 1e3
ENDS = {
    "raises": ({"do": "raise", "word": "wrong bit"}, "failed", "rank 1: RuntimeError: wrong bit"),
    "is not exact": ({"do": "raise", "word": "row 3", "when": "prove"}, "failed", "rank 1: RuntimeError: row 3"),
    "killed": ({"do": "kill"}, "failed", "rank 1: signal: ended by SIGKILL"),
    "leaves": ({"do": "exit", "code": 0}, "failed", "rank 0: ended: another rank was gone for 2 s"),
    "another library": ({"do": "report", "digest": "n00000000"}, "void", "digest: the plan expects"),
    "another machine": (
        {"do": "report", "facts": {"device": "NVIDIA A100"}},
        "void",
        "machine: the plan expects h200-nvlink, this rank runs on NVIDIA A100",
    ),
    "is too fast": (
        {"do": "take", "us": 0.25},
        "void",
        f"impossible: 0.375 us for a round trip, whose 2 hops take {TWO_HOPS_US:.3f} us",
    ),
}
PLACES = list(itertools.product(ARMS[1:], (0, 1)))
"""Arm and pair in which each of them happens."""


def row_of(end: str, bench: Bench, tokens: int = 8) -> list[RoundTrip]:
    """The records of the process in which it happens."""
    place = (*PLACES[list(ENDS).index(end)], tokens)
    return [one for one in bench.records() if (one.arm, one.pair, one.tokens) == place]


@pytest.fixture(scope="module")
def graveyard(tmp_path_factory):
    """A screen in which rank 1 of most processes meets an end of its own, beside a library that is not installed."""
    bench = make_bench(tmp_path_factory.mktemp("graveyard") / "repository")
    wishes = []
    for (arm, pair), (wish, _, _) in zip(PLACES, ENDS.values(), strict=False):
        wishes.append({"arm": arm, "pair": pair, "rank": 1, "tokens": None if wish["do"] == "report" else 8, **wish})
    bench.behave(*wishes)
    arms = ",".join(f"'{arm}'" for arm in [*ARMS, "deepep"])
    assert bench.screen(*GPUS, f"arm=[{arms}]") == 4
    return bench


@pytest.mark.parametrize("end", ENDS)
def test_a_rank_that_ends_takes_its_process_along_with_the_reason(graveyard, end):
    _, status, reason = ENDS[end]
    rows = row_of(end, graveyard)
    assert {one.status for one in rows} == {status}
    assert all(reason in one.reason for one in rows), {one.reason for one in rows}
    measured = end == "is too fast"
    assert all((one.rank is None) != measured and (one.samples_us is None) != measured for one in rows)


def test_a_figure_that_no_machine_gives_is_void_and_kept(graveyard):
    rows = row_of("is too fast", graveyard)
    assert {one.rank: one.latency_us for one in rows}[1] == 0.375


def test_one_arm_that_ends_harms_no_other_and_no_peer_stays(graveyard):
    assert {one.status for one in graveyard.records() if one.arm == "m2n"} == {"ok"}
    assert not processes_in(graveyard.root)


def test_a_cell_that_was_measured_ahead_of_a_failure_is_kept(graveyard):
    assert {one.status for one in row_of("killed", graveyard, tokens=1)} == {"ok"}


def test_a_library_that_is_not_installed_voids_its_arm_alone(graveyard):
    assert {one.reason for one in graveyard.records() if one.arm == "deepep"} == {"deep_ep is not installed"}


def test_every_failure_is_listed_with_a_folder_that_stays(graveyard):
    reasons = {one.reason for one in graveyard.records() if one.status == "failed"}
    listed = {line.removeprefix("failed: ") for line in graveyard.lines if line.startswith("failed: ")}
    folders = [line.partition(" in ")[2] for line in graveyard.lines if line.startswith("  all of stderr in ")]
    assert len(reasons) == 4  # each once: the ends that are failures
    assert reasons <= listed
    assert all(list((graveyard.root / folder).glob("*.stderr")) for folder in folders)
    assert list(graveyard.out("scratch").iterdir()) == list(graveyard.out("trees").iterdir()) == []


def test_what_is_void_is_not_listed_as_failed(graveyard):
    listed = {line.removeprefix("failed: ") for line in graveyard.lines if line.startswith("failed: ")}
    assert listed.isdisjoint(one.reason for one in graveyard.records() if one.status == "void")


def test_a_rank_gets_its_place_and_no_variable_beyond_the_list():
    given = {"PATH": "/bin", "AFDEP_UNION_NOTIFY": "1", "CUDA_VISIBLE_DEVICES": "0,1", "NCCL_NVLS_ENABLE": "1"}
    found = environment(Path("/slot"), given) | _in_group(3, 4, 99)
    assert (found["RANK"], found["WORLD_SIZE"], found["CUDA_VISIBLE_DEVICES"]) == ("3", "4", "0,1")
    assert (found["NCCL_NVLS_ENABLE"], found["TORCH_SYMM_MEM_DISABLE_MULTICAST"]) == ("0", "1")
    assert "AFDEP_UNION_NOTIFY" not in found


SHARED = ("backend=upstream", "backend.pairs=2", "layout=2A1F", "backend.ranks_per_gpu=2", "tokens=[1]")


def daemon_of(bench: Bench, behaviour: str) -> Control:
    """A control program of MPS for the processes of a bench, which inherit no word of how it behaves."""
    control = Control(bench.root.parent, behaviour)
    program = bench.root.parent / "nvidia-cuda-mps-control"
    told = "".join(f"export {name}='{control.environ[name]}'\n" for name in ("FAKE", "FAKE_PIDS"))
    program.write_text(program.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{told}"))
    bench.environ["PATH"] = f"{program.parent}:{bench.environ['PATH']}"
    return control


def test_ranks_that_share_gpus_tell_so_and_leave_no_daemon_even_where_they_are_ended_for_their_time(bench):
    control = daemon_of(bench, "good")
    bench.behave({"arm": "m2n", "tokens": 1, "rank": 1, "do": "hang"})
    assert bench.screen(*SHARED, "launcher.timeout_s=3") == 4
    assert any(
        "m2n" in line and "failed: " in line and "timeout: still running after 3 s" in line for line in bench.lines
    )
    afdep = [one for one in bench.records() if one.arm != "m2n"]
    assert {(one.status, one.placement) for one in afdep} == {("ok", "2 ranks on the fullest GPU")}
    assert {json.loads(one.observed)["gpus"] for one in afdep} == {2}
    assert not processes_in(bench.root)
    wait_until(lambda: not control.daemons(), "the end of every daemon")


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """A screen of ranks that share GPUs, on a machine that refuses it."""
    bench = make_bench(tmp_path_factory.mktemp("refused") / "repository")
    daemon_of(bench, "refuses")
    assert bench.screen(*SHARED) == 3
    return bench


def test_without_a_daemon_every_process_is_void_with_its_words(refused):
    assert {(one.status, one.reason) for one in refused.records()} == {("void", "needs MPS: MPS is not supported")}
    shown = [line for line in refused.lines if line.startswith("[")]
    assert all(": void: needs MPS: MPS is not supported" in line for line in shown)


def test_a_process_without_a_place_is_void_once(refused):
    assert [one.attempt for one in refused.records()] == [1] * 4
