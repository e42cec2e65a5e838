"""Ranks on GPUs: exact exchanges, and every failure named at every rank. Needs two processes' worth of Hopper GPUs."""

import pytest

from harness.cli import main
from tests.device import ranks

pytestmark = pytest.mark.requires("gpu")


@pytest.mark.requires("hydra")
@pytest.mark.parametrize("mode", ["graph", "eager"])
@pytest.mark.parametrize("backend", ["cuda", "upstream"])
def test_a_screen_proves_and_times_every_arm(mode, backend, tmp_path):
    arms = "arm=[m2n,afdep,afdep@bd4db4da,'afdep[AFDEP_GRID_SYNC_EXIT=1]',nccl]"
    words = ["screen=grid", arms, "hidden=1024", "tokens=[1,33]", f"launcher.out={tmp_path}", f"exchange.mode={mode}"]
    few = ["backend.pairs=2", "backend.device.replays=2", "backend.num_exchanges=3"]
    assert main(["screen", f"backend={backend}", *words, *few]) == 0


@pytest.mark.parametrize("scenario", ["thousand_exchanges", "thousand_symmetric_exchanges"])
def test_a_thousand_exchanges_in_a_row_are_bit_exact(scenario):
    assert ranks.run(scenario) == ["ok", "ok"]


def test_windows_by_ipc_serve_as_well():
    assert ranks.run("mapped_windows") == ["ok", "ok"]


def test_a_dispatch_dtype_may_be_torchs():
    assert ranks.run("torch_dtype") == ["ok", "ok"]


@pytest.mark.parametrize(("scenario", "field"), [("other_hidden", "hidden"), ("other_switch", "AFDEP_UNION_NOTIFY")])
def test_ranks_made_differently_all_say_what_differs(scenario, field):
    assert all(said.startswith(f"AgreementError: {field}: expected one value") for said in ranks.run(scenario))


def test_a_silent_peer_is_named_when_the_wait_times_out():
    silent, waiting = ranks.run("silent_peer")
    assert silent == "ok"
    assert waiting.startswith("WaitTimeoutError")
    assert "expected rank 0 to arrive" in waiting


def test_a_buffer_is_dead_after_a_failure():
    assert ranks.run("dead_afterwards")[1].startswith("DeadBufferError")


def test_a_refused_call_is_raised_by_the_peer_too():
    peer, caller = ranks.run("refused_call")
    assert caller.startswith("ShapeError: x")
    assert peer.startswith("PeerRefusedError")
    assert "rank 1" in peer


def test_a_wrong_id_is_raised_by_every_rank():
    peer, source = ranks.run("wrong_id")
    assert source.startswith("DeviceAssertion: device assertion expert_out_of_range: rank 1, token ")
    assert peer.startswith("DeviceAssertion: device assertion expert_out_of_range: rank 1")


def test_a_call_out_of_order_is_refused():
    assert [said.partition(":")[0] for said in ranks.run("wrong_order")] == ["OrderError", "OrderError"]
