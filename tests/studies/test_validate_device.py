"""A rank on a GPU as it calls its Buffer, every case of it, on the CPU's tensors; its room, meetings and watchdog."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from afdep.errors import BuildError, MismatchError
from afdep.layout import Layout
from harness.machine.gpus import place
from harness.studies.validate import program
from harness.studies.validate.exchange import turns
from harness.studies.validate.protocol import PeerFailedError, run
from harness.study import Batch, VoidError
from tests.studies.fake_gpu import device, opening, torch
from tests.studies.validating import SMALL, at, setups

pytestmark = pytest.mark.requires("torch")

GPU = ("validation=gpu", "backends=[cuda]", "validation.cover.tokens=[1,32]", "validation.cover.hidden=[2048]")


def one_of_each(found):
    """A point of each case, such that all arms, dtypes and modes occur: cases take them in turn."""
    by_case = {}
    for one in found:
        by_case.setdefault(one.trial.case, []).append(at(one, layout="2A1F"))
    return [own[index % len(own)] for index, own in enumerate(by_case.values())]


SETUPS = [
    one
    for one in one_of_each(setups(*GPU))
    if one.trial.case != "full-capacity" and one.case.expects != "AgreementError on every rank"
]


@pytest.fixture
def opened(monkeypatch):
    """Makes a rank of a trial."""
    return opening(monkeypatch)


def words(setup):
    trial = setup.trial
    return f"{trial.case} {trial.dtype} {trial.mode} {trial.arm.partition('[')[0]} {trial.routing}"


def test_the_cases_here_have_every_arm_dtype_and_mode():
    points = {(one.trial.arm.partition("[")[0], one.trial.dtype, one.trial.mode) for one in SETUPS}
    assert [len(set(values)) for values in zip(*points, strict=True)] == [2, 3, 2]


@pytest.mark.parametrize("rank", [0, 1, 2], ids="rank{}".format)
@pytest.mark.parametrize("setup", SETUPS, ids=words)
def test_a_rank_runs_its_part_of_every_case(opened, setup, rank):
    ranks, case = opened(setup, rank), setup.case
    run(ranks)
    assert ranks.exact == case.exchanges * (1 + (case.runs_free and setup.trial.mode == "eager")) - bool(case.invalid)
    assert ranks.informed == int(case.invalid is not None)
    assert ranks.replays == (case.exchanges if setup.trial.mode == "graph" else 0)
    late = (case.delay_ffn_us and rank == 0) or (case.delay_source_us and rank == 1)
    assert ranks.late == (case.exchanges if late else 0)
    assert ranks.counted == (case.exchanges - 1 if case.host_counts and rank == 0 else 0)
    ranks.close()
    assert ranks.buffer.closed


def test_host_counts_of_another_exchange_fail_a_trial(opened):
    (setup,) = [one for one in SETUPS if one.case.host_counts][:1]
    ranks = opened(setup, 0)
    ranks.buffer.counts_now = lambda: [0] * setup.shape.experts_per_rank
    with pytest.raises(MismatchError, match="host counts"):
        run(ranks)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


CAPTURED = [
    one
    for one in setups(SMALL, "backends=[cuda]", "cases=[bucket-cycle,empty-sources,skipped-sources]")
    if (one.trial.layout, one.trial.mode, one.trial.arm) == ("2A2F", "graph", "afdep")
]


@pytest.mark.parametrize("setup", CAPTURED, ids=words)
def test_inputs_hold_every_turn_and_no_route_past_its_tokens(opened, setup):
    ranks = opened(setup, 2)
    for turn in turns(setup):
        (held,), own = ranks.inputs(ranks.unrouted(turn.bucket)), turn.sent[0]
        held.take(*ranks.arguments([own]))
        (payload, ids, _), count = held.arguments, len(own.x)
        x, scales = (payload, None) if own.scales is None else payload
        assert int(held.count) == count
        assert bits(x[:count]) == own.x.tobytes()
        assert bits(ids[:count]) == own.topk_idx.tobytes()
        assert bool((ids[count:] == -1).all())
        assert own.scales is None or bits(scales[:count]) == own.scales.tobytes()


def group_of(room=None, say=lambda event, reason: None):
    """A group of ranks that have so much room where they share a GPU."""
    session = SimpleNamespace(job=SimpleNamespace(room=room), mouth=SimpleNamespace(say=say))
    return SimpleNamespace(rank=0, session=session)


@pytest.mark.parametrize(("layout", "sms", "fits"), [("3A1F", 24, True), ("5A1F", 16, True), ("5A1F", 23, False)])
def test_a_trial_of_more_transport_sms_than_a_shared_gpu_holds_is_void(monkeypatch, layout, sms, fits):
    monkeypatch.setattr(device, "DeviceRank", lambda *told: "opened")
    setup = replace(SETUPS[0], trial=replace(SETUPS[0].trial, layout=layout, transport_sms=sms))
    group = group_of(place(Layout.parse(layout), 1).room(132))
    if fits:
        assert device.open_ranks(setup, group) == "opened"
        return
    with pytest.raises(VoidError, match="ranks that share GPUs have room for 22 transport SMs each, not for 23"):
        device.open_ranks(setup, group)


def test_ranks_that_share_no_gpu_have_room_for_any_number(monkeypatch):
    monkeypatch.setattr(device, "DeviceRank", lambda *told: "opened")
    setup = replace(SETUPS[0], trial=replace(SETUPS[0].trial, transport_sms=132))
    assert device.open_ranks(setup, group_of()) == "opened"


@pytest.mark.parametrize(
    ("said", "own", "expected"),
    [("rank 1: bad", None, "rank 1: bad"), (None, None, None), ("rank 0: bad", "bad", None)],
)
def test_a_meeting_tells_the_problem_of_another_rank(monkeypatch, said, own, expected):
    monkeypatch.setattr(device.agreement, "first_problem", lambda group, problem: said)
    if expected is None:
        device.meet(own)
        return
    with pytest.raises(PeerFailedError, match=expected):
        device.meet(own)


def test_a_meeting_that_a_rank_does_not_live_to_see_says_so(monkeypatch):
    def gone(group, problem):
        raise RuntimeError("Connection closed by peer\nmore")

    monkeypatch.setattr(device.agreement, "first_problem", gone)
    with pytest.raises(PeerFailedError, match=r"a rank is gone: Connection closed by peer\n"):
        device.meet()


def test_a_rank_that_hangs_is_ended_even_where_it_can_say_nothing(monkeypatch):
    statuses, is_over, said = [], threading.Event(), []
    monkeypatch.setattr(threading, "excepthook", lambda told: is_over.set())

    def say(event, reason):
        said.append((event, reason))
        raise BrokenPipeError

    with device.watched(group_of(say=say), 0.1, statuses.append):
        assert is_over.wait(10)
    assert statuses == [device.STUCK]
    assert said[0][0] == "failed"
    assert said[0][1].startswith("still in ")


def test_a_rank_between_trials_is_not_ended():
    statuses = []
    with device.watched(group_of(), 0.05, statuses.append):
        pass
    threading.Event().wait(0.6)
    assert statuses == []


def test_a_library_that_cannot_be_built_voids_what_needs_it(monkeypatch):
    def built(backend, library):
        raise BuildError("compiler: expected nvcc on the PATH, received none.", "Install it.")

    monkeypatch.setattr(program.contract, "built", built)
    group = SimpleNamespace(library=None, session=SimpleNamespace(opened=None))
    with pytest.raises(VoidError, match="expected nvcc on the PATH"):
        next(program.run(Batch((), "cuda"), group))
