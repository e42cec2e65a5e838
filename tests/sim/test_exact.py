"""Every exchange of the simulator is exact, bit for bit, over poisoned memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afdep import Load, MismatchError, controls, proof, reference, routing
from afdep.reference import BF16
from tests.sim.exchanges import ARMS, MACHINE, exchange, full, make_routes, make_world

LAYOUTS = ["1A1F", "2A1F", "5A1F", "2A2F", "4A2F", "3A1F", "1A3F", "3A5F"]
ALL_CONTROLS = ",".join(f"{name}=1" for name in controls.NAMES)

by_arm = pytest.mark.parametrize("arm", ARMS)
by_layout = pytest.mark.parametrize("layout", LAYOUTS)


@by_arm
@by_layout
@pytest.mark.parametrize("tokens", [0, 1, 2, 7, 15, 16], ids=lambda tokens: f"T{tokens}")
def test_every_byte_is_exact(layout, arm, tokens):
    world = make_world(layout, arm=arm)
    counts = [tokens] * world.layout.attention_ranks
    proof.prove(world, [Load(make_routes(world, counts, seed=tokens))], 16, tokens)


@by_arm
def test_a_machine_of_full_size_is_exact(arm):
    world = make_world("3A1F", arm=arm, machine=MACHINE, transport_sms=24)
    loads = [Load(make_routes(world, full(world), seed=seed)) for seed in range(3)]
    proof.prove(world, loads, 16, 12)


def test_the_frozen_arm_of_the_main_table_is_exact():
    world = make_world(arm="afdep@bd4db4da")
    proof.prove(world, [Load(make_routes(world, full(world)))], 16, 1)


@by_arm
@pytest.mark.parametrize("layout", ["2A2F", "5A1F", "1A3F"])
@pytest.mark.parametrize("kind", routing.KINDS)
def test_every_routing_is_exact(kind, layout, arm):
    world = make_world(layout, arm=arm)
    proof.prove(world, [Load(make_routes(world, full(world), kind))], 16, 2)


@by_arm
@pytest.mark.parametrize("layout", ["2A1F", "4A2F", "3A5F"])
@pytest.mark.parametrize("small", [0, 1], ids=["first", "second"])
def test_a_source_with_one_token_beside_full_ones_is_exact(layout, arm, small):
    world = make_world(layout, arm=arm)
    counts = [1 if source == small else 16 for source in range(world.layout.attention_ranks)]
    proof.prove(world, [Load(make_routes(world, counts))], 16, 3)


@by_arm
@pytest.mark.parametrize("counts", [(0, 3, 16, 7), (16, 0, 0, 1), (1, 2, 3, 4)], ids=str)
def test_sources_with_different_tokens_are_exact(arm, counts):
    world = make_world("4A2F", arm=arm)
    proof.prove(world, [Load(make_routes(world, counts))], 16, 4)


@by_arm
@pytest.mark.parametrize("silent", [[0], [1], [0, 1, 2]], ids=["first", "second", "all"])
def test_sources_without_a_route_are_exact(arm, silent):
    world = make_world("3A1F", arm=arm)
    ids = make_routes(world, full(world))
    for source in silent:
        ids[source][:] = -1
    proof.prove(world, [Load(ids)], 16, 5)


@by_arm
def test_ids_of_32_and_64_bits_give_the_same_bits(arm):
    """K25."""
    world = make_world("2A2F", arm=arm)
    ids = make_routes(world, full(world))
    wide, narrow = (exchange(world, [i.astype(dtype) for i in ids]) for dtype in (np.int64, np.int32))
    for left, right in zip(wide.collected, narrow.collected, strict=True):
        assert left.tobytes() == right.tobytes()


@by_arm
@pytest.mark.parametrize("layout", ["2A2F", "5A1F", "1A3F"])
def test_exchanges_that_run_free_with_fresh_routes_are_exact(layout, arm):
    world = make_world(layout, arm=arm)
    generator = np.random.default_rng(6)
    loads = []
    for index in range(8):
        bucket = int(generator.integers(1, 17))
        counts = generator.integers(0, bucket + 1, world.layout.attention_ranks)
        loads.append(Load(make_routes(world, counts, seed=index), bucket))
    proof.prove(world, loads, 16, 6)


@pytest.mark.parametrize("switches", [*(f"{name}=1" for name in controls.NAMES), ALL_CONTROLS])
@pytest.mark.parametrize("layout", ["2A2F", "3A1F", "1A3F", "5A1F"])
def test_every_control_is_exact(layout, switches):
    world = make_world(layout, arm=f"afdep[{switches}]")
    loads = [Load(make_routes(world, full(world), seed=seed)) for seed in range(3)]
    proof.prove(world, loads, 16, 7)


@by_arm
@pytest.mark.parametrize("alignment", [1, 16, 128])
def test_padding_rows_are_zero(arm, alignment):
    world = make_world("2A2F", arm=arm, expert_alignment=alignment)
    proof.prove(world, [Load(make_routes(world, full(world)))], 16, 8)
    rows = sum(int((ids >= 0).sum()) for ids in make_routes(world, full(world)))
    round_ = exchange(world, make_routes(world, full(world)))
    offsets = [received.expert_offsets for received in round_.received]
    assert all((each % alignment == 0).all() for each in offsets)
    assert (sum(int(each[-1]) for each in offsets) == rows) == (alignment == 1)


@by_arm
@pytest.mark.parametrize("sms", [1, 2, 7, 23, 24, 64, 132])
def test_any_number_of_transport_sms_is_exact(arm, sms):
    world = make_world("2A2F", arm=arm, capacity=96, transport_sms=sms, machine=MACHINE)
    proof.prove(world, [Load(make_routes(world, full(world)))], 96, 9)


@by_arm
def test_more_tokens_than_shared_memory_slots_are_exact(arm):
    world = make_world("2A2F", arm=arm, hidden=7168, capacity=96, transport_sms=1)
    proof.prove(world, [Load(make_routes(world, full(world)))], 96, 10)


@by_arm
@pytest.mark.parametrize("top_k", range(1, 17), ids=lambda top_k: f"K{top_k}")
def test_sums_are_taken_in_fp32_in_lane_order_and_rounded_once(arm, top_k):
    """K63."""
    world = make_world("2A2F", arm=arm, num_experts=32, top_k=top_k)
    ids = make_routes(world, full(world))
    round_ = exchange(world, ids, reference.cancelling_experts)
    options = {"num_ffn_ranks": 2, "num_experts": 32, "expert": reference.cancelling_experts}
    for collected, wanted in zip(round_.collected, reference.exchange(round_.sent, **options), strict=True):
        assert collected.tobytes() == wanted.tobytes()


def test_another_order_of_the_lanes_sums_to_other_bits():
    world = make_world("2A1F", num_experts=32, top_k=8)
    ids = make_routes(world, full(world))
    forward, backward = (
        exchange(world, each, reference.cancelling_experts) for each in (ids, [i[:, ::-1] for i in ids])
    )
    assert forward.collected[0].tobytes() != backward.collected[0].tobytes()


@by_arm
@pytest.mark.parametrize("value", [-0.0, 0.0, 2.0**-133, np.inf, np.nan], ids=str)
def test_a_single_route_returns_any_bits_as_they_are(arm, value):
    world = make_world("2A2F", arm=arm, top_k=1)
    x = np.full((1, 64), value, np.float32).astype(BF16)
    for source in world.sources:
        source.source_dispatch(x, np.zeros((1, 1), np.int64))
    for ffn in world.ffns:
        received = ffn.ffn_receive()
        ffn.ffn_reply(received, received.x)
    collected = [source.source_collect() for source in world.sources]
    world.run()
    assert [y.tobytes() for y in collected] == [x.tobytes()] * 2


@st.composite
def worlds(draw):
    ffn_ranks = draw(st.integers(1, 4))
    experts = draw(st.integers(1, 9)) * ffn_ranks
    return make_world(
        f"{draw(st.integers(1, 6))}A{ffn_ranks}F",
        arm=draw(st.sampled_from(ARMS)),
        num_experts=experts,
        top_k=draw(st.integers(1, min(experts, 12))),
        hidden=draw(st.integers(1, 40)) * 16,
        capacity=draw(st.integers(1, 40)),
        transport_sms=draw(st.integers(1, 8)),
        expert_alignment=draw(st.sampled_from([1, 1, 8])),
    )


@settings(max_examples=60, deadline=None)
@given(worlds(), st.data(), st.integers(0, 2**20))
def test_any_small_exchange_is_exact(world, data, seed):
    tokens = [data.draw(st.integers(0, world.shape.capacity)) for _ in world.sources]
    ids = make_routes(world, tokens, seed=seed)
    for each in ids:
        each[np.random.default_rng(seed).random(each.shape) < 0.2] = -1
    proof.prove(world, [Load(ids)] * 2, world.shape.capacity, seed)


@by_arm
def test_a_transform_other_than_the_reference_is_noticed(arm, monkeypatch):
    world = make_world(arm=arm)
    monkeypatch.setattr(reference, "expert_scale", lambda experts: np.ones(len(experts), np.float32))
    with pytest.raises(MismatchError, match="collected row"):
        proof.prove(world, [Load(make_routes(world, full(world)))], 16, 11)
