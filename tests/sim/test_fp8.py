"""FP8 rows and their scale words arrive as raw bytes; replies are BF16."""

import ml_dtypes
import numpy as np
import pytest

from afdep import ShapeError, checks, reference
from afdep.reference import Sent
from tests.sim.exchanges import ARMS, answer, full, make_routes, make_world

FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
WORDS = {"fp8": 3, "fp8-ue8m0": 1}
"""Scale words of a row of 320 elements: a group of 128 each, or four of them."""


def fp8_world(dtype, arm, **changes):
    return make_world("2A2F", arm=arm, hidden=320, dispatch_dtype=dtype, **changes)


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


@pytest.mark.parametrize("arm", ARMS)
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
