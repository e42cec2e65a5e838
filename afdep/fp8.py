"""FP8 rows: what their bytes and scale words mean, and a payload on which every proof stays exact.

A value is its E4M3 code times the scale of its group of 128 elements; the last group of a row may be short. E4M3 has
four significant bits, so under a scale that is a power of two every value is exact in BF16.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep.dtypes import SCALE_GROUP, DispatchDtype
from afdep.elements import E4M3, e4m3_values, e8m0_values, to_bf16

_NAN = 0x7F
"""The code of NaN, with either sign; E4M3 has no infinities."""
_EXPONENTS = (-4, 4)
"""Powers of two that the payload draws its scales from, the second excluded."""
_BIAS = 127

Array = NDArray[Any]


def payload(tokens: int, hidden: int, dtype: DispatchDtype, seed: int) -> tuple[Array, Array]:
    """Rows of every E4M3 value but NaN, subnormals, zeros of both signs and 448 among them, and their scales.

    Args:
        tokens: rows.
        hidden: elements of a row.
        dtype: "fp8" or "fp8-ue8m0".
        seed: of PCG64.

    Returns:
        float8_e4m3fn [tokens, hidden], and scale words uint32 [tokens, words] of powers of two from 1/16 to 8. Bytes
        of the last word that no group belongs to are random: they travel too.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    codes = rng.integers(0, 256, size=(tokens, hidden), dtype=np.uint8)
    codes[(codes & _NAN) == _NAN] = 0
    words = dtype.scale_bytes(hidden) // 4
    exponents = rng.integers(*_EXPONENTS, size=(tokens, words * dtype.groups_per_word))
    return codes.view(E4M3), _scale_words(exponents, dtype, -(-hidden // SCALE_GROUP), rng)


def decode(x: Array, scales: Array, dtype: DispatchDtype) -> Array:
    """What FP8 rows stand for, rounded to BF16; exact under powers of two within the range of BF16.

    Args:
        x: float8_e4m3fn or its bytes [T, H].
        scales: 4-byte words [T, words].
        dtype: "fp8" or "fp8-ue8m0".

    Returns:
        BF16 [T, H].
    """
    if dtype.groups_per_word == 1:
        factors = np.ascontiguousarray(scales).view(np.float32)
    else:
        factors = e8m0_values(np.ascontiguousarray(scales).view(np.uint8))
    by_element = np.repeat(factors, SCALE_GROUP, axis=1)[:, : x.shape[1]]
    with np.errstate(invalid="ignore", over="ignore"):  # NaN, or zero times infinity, is the payload's business
        return to_bf16(e4m3_values(x) * by_element)


def _scale_words(exponents: Array, dtype: DispatchDtype, groups: int, rng: np.random.Generator) -> Array:
    if dtype.groups_per_word == 1:
        return np.ldexp(np.float32(1), exponents).astype(np.float32).view(np.uint32)
    codes = (exponents + _BIAS).astype(np.uint8)
    codes[:, groups:] = rng.integers(0, 256, size=codes[:, groups:].shape, dtype=np.uint8)
    return codes.view(np.uint32)
