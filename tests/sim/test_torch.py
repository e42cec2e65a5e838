"""CPU torch tensors are taken as they are."""

import numpy as np
import pytest

from afdep import World, reference, routing
from afdep.reference import BF16

pytestmark = pytest.mark.requires("torch")

TOKENS, HIDDEN, EXPERTS, TOP_K = 9, 128, 8, 4


def collected(convert_rows, convert):
    """What a source collects when its arguments went through the converters."""
    world = World("1A2F", hidden=HIDDEN, num_experts=EXPERTS, top_k=TOP_K, capacity=16, transport_sms=3)
    x = reference.payload(TOKENS, HIDDEN, 3)
    ids = routing.make("random", TOKENS, EXPERTS, TOP_K, 3)
    weights = np.random.default_rng(3).random(ids.shape, np.float32)
    (source,) = world.sources
    source.source_dispatch(convert_rows(x), convert(ids), convert(weights), bucket=16)
    received = [ffn.ffn_receive(bucket=16) for ffn in world.ffns]
    world.run()
    for ffn, rows in zip(world.ffns, received, strict=True):
        ffn.ffn_reply(rows, convert_rows(np.array(rows.x)))
    y = source.source_collect()
    world.run()
    return np.array(y)


def to_bfloat16(array):
    import torch

    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def test_an_exchange_of_tensors_gives_the_bits_of_an_exchange_of_arrays():
    import torch

    from_arrays = collected(lambda x: x, lambda x: x)
    from_tensors = collected(to_bfloat16, torch.from_numpy)
    assert from_arrays.dtype == from_tensors.dtype == BF16
    assert np.array_equal(from_arrays.view(np.uint16), from_tensors.view(np.uint16))
    assert from_arrays.view(np.uint16).any()


def test_a_tensor_of_another_dtype_is_refused_by_name():
    import torch

    with pytest.raises(Exception, match=r"x: expected bf16 \[T, 128\]"):
        collected(lambda x: torch.from_numpy(x.astype(np.float32)), torch.from_numpy)
