"""A wrong call, a wrong route or a missing peer ends in an error that says so on every rank, never in a hang."""

import numpy as np
import pytest

from afdep import (
    AfdepError,
    CapacityError,
    DeadBufferError,
    DeadlockError,
    DeviceAssertion,
    Load,
    OrderError,
    PeerRefusedError,
    ShapeError,
    proof,
    reference,
)
from tests.sim.exchanges import ARMS, MACHINE, changed_machine, full, make_routes, make_world, send

EIGHT_SMS = changed_machine(sm_count=8)

by_arm = pytest.mark.parametrize("arm", ARMS)
INVALID = {
    "first beyond": (12, "expert_out_of_range"),
    "largest int32": (2**31 - 1, "expert_out_of_range"),
    "beyond int32": (2**40, "expert_out_of_range"),
    "zero in its low half": (2**32, "expert_out_of_range"),
    "below -1": (-2, "expert_out_of_range"),
    "far below": (-(2**40), "expert_out_of_range"),
    "duplicate": (None, "duplicate_expert"),
}


def enqueue_exchange(world, ids):
    send(world, ids)
    for ffn in world.ffns:
        received = ffn.ffn_receive()
        ffn.ffn_reply(received, world.expert_transform(ffn.rank))
    return [source.source_collect() for source in world.sources]


def failure_of(world):
    with pytest.raises(AfdepError) as error:
        world.run()
    return error.value


def with_invalid_route(world, value):
    ids = make_routes(world, full(world))
    ids[1][5, 3] = ids[1][5, 0] if value is None else value
    return ids


@by_arm
@pytest.mark.parametrize("layout", ["2A2F", "5A1F", "3A5F"])
@pytest.mark.parametrize(("value", "name"), INVALID.values(), ids=INVALID)
def test_an_invalid_route_is_named_and_every_rank_is_told(value, name, layout, arm):
    """K25, K27."""
    world = make_world(layout, arm=arm, num_experts=12 if layout != "3A5F" else 10)
    ids = with_invalid_route(world, value)
    enqueue_exchange(world, ids)
    error = failure_of(world)
    assert isinstance(error, DeviceAssertion)
    place = (error.name, error.rank, error.token, error.lane, error.expert)
    assert place == (name, world.layout.ffn_ranks + 1, 5, 3, ids[1][5, 3])
    assert world.informed_ranks == list(range(world.layout.num_ranks))


@by_arm
@pytest.mark.parametrize("value", [12, -2, 2**31 - 1])
def test_an_invalid_route_of_32_bits_is_named_alike(arm, value):
    world = make_world(arm=arm)
    enqueue_exchange(world, [ids.astype(np.int32) for ids in with_invalid_route(world, value)])
    error = failure_of(world)
    assert isinstance(error, DeviceAssertion)
    assert (error.token, error.lane, error.expert) == (5, 3, value)


@by_arm
def test_a_failed_group_says_so_ever_after(arm):
    world = make_world(arm=arm)
    enqueue_exchange(world, with_invalid_route(world, 12))
    failure_of(world)
    for call in (world.run, world.ffns[0].ffn_receive, lambda: send(world, make_routes(world, full(world)))):
        with pytest.raises(DeadBufferError, match=r"device assertion expert_out_of_range.*\n.*build a new World"):
            call()


@by_arm
def test_results_of_a_failed_exchange_hold_nan(arm):
    world = make_world(arm=arm)
    collected = enqueue_exchange(world, with_invalid_route(world, 12))
    failure_of(world)
    assert all(np.isnan(y.astype(np.float32)).all() for y in collected)


@by_arm
def test_a_failed_group_leaves_another_one_alone(arm):
    failed, other = make_world(arm=arm), make_world(arm=arm)
    enqueue_exchange(failed, with_invalid_route(failed, 12))
    failure_of(failed)
    proof.prove(other, [Load(make_routes(other, full(other)))], 16, 1)


MISSING = {
    "m2n": ("dispatch entry barrier", None, 4, 3),
    "afdep": ("dispatch counts", 3, 0, 0),
}


@by_arm
def test_a_source_that_never_calls_is_named_by_those_who_wait(arm):
    world = make_world(arm=arm)
    world.sources[0].source_dispatch(reference.payload(2, 64, 0), np.zeros((2, 4), np.int64) - 1)
    received = [ffn.ffn_receive() for ffn in world.ffns]
    assert len(received) == 2
    error = failure_of(world)
    assert isinstance(error, DeadlockError)
    wait = next(wait for wait in error.waits if wait.rank == 0)
    assert (wait.wait, wait.peer, wait.expected, wait.seen) == MISSING[arm]
    assert (wait.kernel, wait.cta) == ("dispatch", 0)
    assert f"rank 0 dispatch CTA 0 warp {wait.warp} waits for {wait.wait}" in str(error)


@by_arm
def test_an_ffn_rank_that_never_calls_is_waited_for_by_the_sources(arm):
    world = make_world(arm=arm)
    send(world, make_routes(world, full(world)))
    received = world.ffns[0].ffn_receive()
    world.ffns[0].ffn_reply(received, received.x)
    for source in world.sources:
        source.source_collect()
    error = failure_of(world)
    assert isinstance(error, DeadlockError)
    wait = next(wait for wait in error.waits if wait.rank == 2)
    expected = ("dispatch", "dispatch entry barrier", None) if arm == "m2n" else ("combine", "combine arrivals", 1)
    assert (wait.kernel, wait.wait, wait.peer) == expected


@by_arm
def test_a_source_that_calls_one_exchange_less_is_a_deadlock_of_the_last(arm):
    world = make_world(arm=arm)
    enqueue_exchange(world, make_routes(world, full(world)))
    world.sources[0].source_dispatch(reference.payload(1, 64, 0), np.zeros((1, 4), np.int64) - 1)
    for ffn in world.ffns:
        received = ffn.ffn_receive()
        ffn.ffn_reply(received, received.x)
    error = failure_of(world)
    assert isinstance(error, DeadlockError)
    assert {wait.kernel for wait in error.waits} == {"dispatch"}
    assert 3 not in {wait.rank for wait in error.waits}


@by_arm
@pytest.mark.parametrize(("tokens", "bucket"), [(17, 16), (9, 8), (1, 17)], ids=["capacity", "bucket", "both"])
def test_too_many_tokens_raise_there_and_refuse_the_others(arm, tokens, bucket):
    """K34."""
    world = make_world(arm=arm)
    x, ids = reference.payload(tokens, 64, 0), np.zeros((tokens, 4), np.int64) - 1
    with pytest.raises(CapacityError, match="expected at most"):
        world.sources[1].source_dispatch(x, ids, bucket=bucket)
    world.sources[0].source_dispatch(x[:1], ids[:1])
    answer_later = [ffn.ffn_receive() for ffn in world.ffns]
    error = failure_of(world)
    assert isinstance(error, PeerRefusedError)
    assert (error.rank, len(answer_later)) == (3, 2)
    assert world.informed_ranks == [0, 1, 2, 3]


@by_arm
def test_a_bucket_above_the_capacity_on_an_ffn_rank_refuses_the_others(arm):
    world = make_world(arm=arm)
    send(world, make_routes(world, full(world)))
    with pytest.raises(CapacityError, match="capacity: expected at most 16 tokens, received bucket = 17"):
        world.ffns[1].ffn_receive(bucket=17)
    world.ffns[0].ffn_receive()
    error = failure_of(world)
    assert isinstance(error, PeerRefusedError)
    assert error.rank == 1


def test_ragged_rows_refuse_the_others_as_well():
    world = make_world()
    with pytest.raises(ValueError, match="inhomogeneous"):
        world.sources[0].source_dispatch([[1.0], [1.0, 2.0]], np.zeros((2, 4), np.int64))
    assert isinstance(failure_of(world), PeerRefusedError)


ORDERS = {
    "two dispatches": lambda w: (send(w, make_routes(w, full(w))), send(w, make_routes(w, full(w)))),
    "collect first": lambda w: w.sources[0].source_collect(),
    "two receives": lambda w: (w.ffns[0].ffn_receive(), w.ffns[0].ffn_receive()),
    "two replies": lambda w: [w.ffns[0].ffn_reply(r, r.x) for r in [w.ffns[0].ffn_receive()] * 2],
    "reply to another": lambda w: (w.ffns[0].ffn_receive(), w.ffns[0].ffn_reply(w.ffns[1].ffn_receive(), None)),
    "transform first": lambda w: w.expert_transform(0),
    "dispatch of an FFN rank": lambda w: w.ffns[0].source_dispatch(None, None),
    "receive of a source": lambda w: w.sources[0].ffn_receive(),
}


@pytest.mark.parametrize("calls", ORDERS.values(), ids=ORDERS)
def test_calls_out_of_order_are_refused_with_the_right_order(calls):
    with pytest.raises(OrderError, match=r"expected .*, received .*\n.*"):
        calls(make_world())


X, IDS = np.zeros((2, 64), "uint16"), np.zeros((2, 4), np.int64) - 1
ARGUMENTS = {
    "x of fp32": ("x", (X.astype(np.float32), IDS)),
    "x of another hidden": ("x", (X[:, :32], IDS)),
    "x of one dimension": ("x", (X[0], IDS)),
    "x as a triple": ("x", ((X, X, X), IDS)),
    "ids of another top_k": ("topk_idx", (X, IDS[:, :3])),
    "ids of another T": ("topk_idx", (X, IDS[:1])),
    "weights of fp64": ("topk_weights", (X, IDS, np.ones((2, 4)))),
    "weights of another shape": ("topk_weights", (X, IDS, np.ones((2, 3), np.float32))),
    "bucket of zero": ("bucket", (X, IDS, None, 0)),
    "more rows than there are": ("num_tokens", (X, IDS, None, 16, 3)),
    "negative rows": ("num_tokens", (X, IDS, None, 16, -1)),
    "rows in words": ("num_tokens", (X, IDS, None, 16, "2")),
}


@pytest.mark.parametrize(("argument", "call"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_a_wrong_argument_is_named_in_two_lines(argument, call):
    with pytest.raises(ShapeError, match=f"^{argument}: expected .*, received .*\n.+$") as error:
        make_world().sources[0].source_dispatch(*call)
    assert str(error.value).count("\n") == 1


@pytest.mark.parametrize("out", [np.zeros((3, 64), np.float32), X.view(reference.BF16)[:, :8]], ids=["fp32", "hidden"])
def test_a_reply_of_another_shape_or_type_is_refused(out):
    ffn = make_world().ffns[0]
    with pytest.raises(ShapeError, match=r"out: expected BF16 \[up to 128, 64\]"):
        ffn.ffn_reply(ffn.ffn_receive(), out)


def test_a_reply_given_as_a_strided_view_is_read_as_what_it_shows():
    world = make_world("1A1F", top_k=1)
    x = reference.payload(16, 64, 1)
    world.sources[0].source_dispatch(x, np.zeros((16, 1), np.int64))
    received = world.ffns[0].ffn_receive()
    world.run()
    source = received.source[:, 1]
    world.ffns[0].ffn_reply(received, received.x[::-1])
    collected = world.sources[0].source_collect()
    world.run()
    assert collected[source].tobytes() == x[source][::-1].tobytes()


@pytest.mark.parametrize("sms", [0, 133])
def test_a_number_of_transport_sms_that_no_machine_has_is_refused(sms):
    with pytest.raises(ShapeError, match=rf"transport_sms: expected 1..132, received {sms}\."):
        make_world(transport_sms=sms)


def test_more_transport_sms_than_the_machine_has_are_refused():
    with pytest.raises(ShapeError, match="transport_sms is 5, the machine has 4 SMs"):
        make_world(transport_sms=5, machine=changed_machine(sm_count=4))


@by_arm
@pytest.mark.parametrize(("hidden", "reason"), [(2048, "a record does not fit"), (1024, "one record do not fit")])
def test_a_record_that_fits_no_shared_memory_is_refused(arm, hidden, reason):
    machine = changed_machine(shared_bytes_per_cta=2560)
    with pytest.raises(ShapeError, match=f"{reason}.*shared memory"):
        make_world(arm=arm, hidden=hidden, machine=machine, num_experts=768, top_k=2)


@by_arm
def test_nobody_deadlocks_when_a_group_fails_after_any_history(arm):
    for seed in range(8):
        world = make_world("3A1F", arm=arm, mode="hunt", seed=seed, machine=MACHINE if seed == 0 else EIGHT_SMS)
        ids = make_routes(world, [1 + seed] * 3, seed=seed + 50)
        proof.prove(world, [Load(make_routes(world, full(world), seed=seed)), Load(ids, 1 + seed)], 16, seed)
        ids[seed % 3][seed, seed % 4] = 6
        enqueue_exchange(world, ids)
        assert isinstance(failure_of(world), DeviceAssertion)
        assert world.informed_ranks == [0, 1, 2, 3]
