"""FP8 rows and their scale words arrive as raw bytes, whatever these mean; replies are BF16."""

import ml_dtypes
import numpy as np
import pytest

from afdep import Load, MismatchError, ShapeError, fp8, proof, reference
from afdep.proof import checks
from afdep.proof.hunt import small_machine
from afdep.reference import Sent
from tests.sim.exchanges import ARMS, answer, full, make_routes, make_world

FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
WORDS = {"fp8": 3, "fp8-ue8m0": 1}
"""Scale words of a row of 320 elements: a group of 128 each, or four of them."""


by_arm = pytest.mark.parametrize("arm", ARMS)
by_dtype = pytest.mark.parametrize("dtype", WORDS)

ODD_SCALES = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, 3.4e38, -1.0], np.float32).view(np.uint32)
ODD_CODES = {
    "every code": np.arange(256),
    "NaN": [0x7F, 0xFF],
    "range ends": [0x7E, 0xFE, 0x01, 0x81],
    "zeros": [0, 128],
}


def fp8_world(dtype, arm, layout="2A2F", **changes):
    return make_world(layout, arm=arm, hidden=320, dispatch_dtype=dtype, **changes)


def proved(world, seed=0):
    """An exchange as a proof runs it, before anything is checked."""
    load = Load(make_routes(world, full(world), seed=seed))
    exchange = proof.enqueue(world, proof.draw(world, load, seed), world.shape.capacity)
    world.run()
    return exchange


def dispatch_fp8(world, ids, words, seed=0):
    generator = np.random.default_rng(seed)
    sent = []
    for index, (source, own) in enumerate(zip(world.sources, ids, strict=True)):
        x = reference.payload(len(own), 320, seed + index).astype(FP8)
        scales = generator.integers(0, 2**32, (len(own), words), np.uint32)
        sent.append(Sent(x, own, generator.random(own.shape, np.float32), scales))
        source.source_dispatch((x, scales), own, sent[-1].topk_weights)
    return sent, [ffn.ffn_receive() for ffn in world.ffns]


def decode_and_apply(rows, experts):
    return reference.apply_experts(rows.view(FP8), experts)


@by_arm
@pytest.mark.parametrize("alignment", [1, 16])
@pytest.mark.parametrize(("dtype", "words"), WORDS.items(), ids=WORDS)
def test_rows_scales_and_weights_arrive_bit_for_bit(dtype, words, arm, alignment):
    world = fp8_world(dtype, arm, expert_alignment=alignment)
    for seed in (1, 2):
        sent, received = dispatch_fp8(world, make_routes(world, full(world), seed=seed), words, seed)
        world.run()
        for ffn, rows in zip(world.ffns, received, strict=True):
            options = {"rank": ffn.rank, "num_ffn_ranks": 2, "num_experts": 12, "expert_alignment": alignment}
            checks.check_received(rows, sent, **options)
        answer(world, received, decode_and_apply)
        collected = [source.source_collect() for source in world.sources]
        world.run()
        for y, wanted in zip(collected, reference.exchange(sent, num_ffn_ranks=2, num_experts=12), strict=True):
            assert y.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("held", ["uint8", "float8_e5m2"])
def test_raw_bytes_are_rows_and_another_fp8_is_not(held):
    world = fp8_world("fp8", "afdep")
    x = np.zeros((1, 320), held)
    call = (x, np.zeros((1, 3), np.float32)), np.zeros((1, 4), np.int64) - 1
    if held == "uint8":
        world.sources[0].source_dispatch(*call)
        return
    with pytest.raises(ShapeError, match=r"x: expected fp8 \[T, 320\], received 'float8_e5m2\[1, 320\]'"):
        world.sources[0].source_dispatch(*call)


@pytest.mark.parametrize("scales", [np.zeros((1, 2), np.float32), np.zeros((1, 3), np.float64), None], ids=str)
def test_scales_of_another_shape_or_size_are_refused(scales):
    x = np.zeros((1, 320), FP8)
    with pytest.raises(ShapeError, match="scales: expected 4-byte words"):
        fp8_world("fp8", "afdep").sources[0].source_dispatch(
            x if scales is None else (x, scales), np.zeros((1, 4), np.int64)
        )


def test_scales_beside_bf16_rows_are_refused():
    x, scales = reference.payload(1, 64, 0), np.zeros((1, 1), np.float32)
    with pytest.raises(ShapeError, match="scales: expected none for BF16"):
        make_world().sources[0].source_dispatch((x, scales), np.zeros((1, 4), np.int64))


@by_arm
@by_dtype
@pytest.mark.parametrize("layout", ["1A1F", "2A2F", "3A1F", "1A3F", "2A5F"])
def test_free_running_exchanges_are_proved_exact(layout, dtype, arm):
    world = fp8_world(dtype, arm, layout, expert_alignment=4)
    proof.prove(world, [Load(make_routes(world, full(world)))] * 3, world.shape.capacity, seed=1)


@by_arm
@by_dtype
@pytest.mark.parametrize("tokens", [[0, 0], [0, 16], [1, 0]], ids=str)
def test_sources_without_rows_are_proved_exact(tokens, dtype, arm):
    world = fp8_world(dtype, arm)
    proof.prove(world, [Load(make_routes(world, tokens))] * 2, world.shape.capacity, seed=1)


@by_dtype
@pytest.mark.parametrize("hidden", [96, 128, 512, 544], ids="H{}".format)
def test_short_and_whole_last_groups_are_proved_exact(hidden, dtype):
    world = make_world(hidden=hidden, dispatch_dtype=dtype, arm="m2n")
    proof.prove(world, [Load(make_routes(world, full(world)))], world.shape.capacity, seed=1)


@by_dtype
def test_a_proof_sees_one_bit_of_a_scale_word(dtype):
    world = fp8_world(dtype, "afdep")
    exchange = proved(world)
    proof.check(world, [exchange])
    exchange.received[1].scales[0, -1] ^= 1 << 31
    with pytest.raises(MismatchError, match="received scales"):
        proof.check(world, [exchange])


@by_dtype
def test_a_proof_sees_scales_that_were_not_applied(dtype, monkeypatch):
    world = fp8_world(dtype, "afdep")
    monkeypatch.setattr(fp8, "decode", lambda x, scales, dtype: x.astype(reference.BF16))
    with pytest.raises(MismatchError, match="collected row"):
        proof.prove(world, [Load(make_routes(world, full(world)))], world.shape.capacity, seed=1)


@by_arm
@pytest.mark.parametrize("codes", ODD_CODES.values(), ids=ODD_CODES)
@by_dtype
def test_odd_rows_and_scales_travel_unchanged(dtype, codes, arm):
    world = fp8_world(dtype, arm)
    generator = np.random.default_rng(0)
    sent = []
    for source, ids in zip(world.sources, make_routes(world, full(world)), strict=True):
        x = generator.choice(np.asarray(codes, np.uint8), (len(ids), 320))
        sent.append(Sent(x, ids, None, generator.choice(ODD_SCALES, (len(ids), WORDS[dtype]))))
        source.source_dispatch((x, sent[-1].scales), ids)
    received = [ffn.ffn_receive() for ffn in world.ffns]
    world.run()
    for ffn, rows in zip(world.ffns, received, strict=True):
        checks.check_received(rows, sent, rank=ffn.rank, num_ffn_ranks=2, num_experts=12)


@by_arm
@by_dtype
def test_times_do_not_depend_on_the_payload_being_moved(dtype, arm):
    load = [Load(make_routes(fp8_world(dtype, arm), [16, 16], seed=seed)) for seed in range(2)]
    timings = [fp8_world(dtype, arm, mode=mode).time_exchanges(load, 16) for mode in ("check", "time")]
    assert timings[0] == timings[1]


@by_arm
@by_dtype
def test_a_large_fp8_exchange_is_faster_than_a_bf16_one(dtype, arm):
    def slowest_us(name):
        world = make_world(hidden=2048, capacity=256, dispatch_dtype=name, arm=arm, mode="time")
        return max(world.time_exchanges([Load(make_routes(world, full(world)))], 256).per_rank_us[2])

    assert slowest_us(dtype) < 0.95 * slowest_us("bf16")


@by_arm
@by_dtype
def test_the_hunt_finds_nothing_in_fp8(dtype, arm):
    for seed in range(25):
        world = fp8_world(dtype, arm, capacity=32, mode="hunt", seed=seed, machine=small_machine())
        loads = [Load(make_routes(world, full(world), seed=seed + index)) for index in range(3)]
        proof.prove(world, loads, world.shape.capacity, seed)
