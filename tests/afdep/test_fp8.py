"""What FP8 bytes and scale words mean, and the payload on which proofs are exact."""

import math

import numpy as np
import pytest

from afdep import fp8
from afdep.dtypes import DISPATCH_DTYPES
from afdep.reference import BF16

FP8, UE8M0 = DISPATCH_DTYPES["fp8"], DISPATCH_DTYPES["fp8-ue8m0"]
by_dtype = pytest.mark.parametrize("dtype", [FP8, UE8M0], ids=lambda dtype: dtype.name)


def value(code: int) -> float:
    """An E4M3 code by its definition."""
    exponent, mantissa = code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return math.nan
    magnitude = math.ldexp(mantissa, -9) if exponent == 0 else math.ldexp(8 + mantissa, exponent - 10)
    return -magnitude if code & 0x80 else magnitude


def test_every_code_decodes_to_its_definition() -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(2, 128)
    ones = np.full((2, 1), 1.0, np.float32)
    wanted = np.array([value(code) for code in range(256)]).reshape(2, 128).astype(BF16)
    assert np.array_equal(fp8.decode(codes, ones, FP8).astype(float), wanted.astype(float), equal_nan=True)


def test_each_group_of_128_has_its_own_scale_and_the_last_may_be_short() -> None:
    ones = np.ones((1, 320), fp8.E4M3)
    wanted = np.repeat([2.0, 4.0, 0.5], [128, 128, 64])
    words = np.array([[128, 129, 126, 255]], np.uint8).view(np.uint32)
    for scales, dtype in ((np.array([[2.0, 4.0, 0.5]], np.float32), FP8), (words, UE8M0)):
        assert np.array_equal(fp8.decode(ones, scales, dtype)[0].astype(float), wanted)


@by_dtype
def test_payload_is_exact_in_bf16_and_finite(dtype) -> None:
    x, scales = fp8.payload(64, 320, dtype, 0)
    decoded = fp8.decode(x, scales, dtype).astype(np.float32)
    assert np.isfinite(decoded).all()
    exact = {value(int(code)) * 2.0**exponent for code in range(256) for exponent in range(-4, 4)}
    assert set(decoded.ravel().tolist()) <= exact


@by_dtype
def test_payload_holds_the_ends_of_the_range_and_both_zeros(dtype) -> None:
    codes = set(fp8.payload(64, 320, dtype, 0)[0].view(np.uint8).ravel().tolist())
    assert codes == set(range(256)) - {0x7F, 0xFF}


@by_dtype
def test_a_seed_repeats_its_payload_and_another_differs(dtype) -> None:
    first, again, other = (fp8.payload(4, 320, dtype, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0].view(np.uint8), other[0].view(np.uint8))
