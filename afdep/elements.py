"""BF16 and FP8 elements on the host: the types of ml_dtypes where it is installed, else their bits.

A node that only runs ranks on GPUs needs no ml_dtypes: payloads, references and checks go through these functions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import ml_dtypes
except ImportError:
    BF16: np.dtype[Any] = np.dtype(np.uint16)
    E4M3: np.dtype[Any] = np.dtype(np.uint8)
else:
    BF16 = np.dtype(ml_dtypes.bfloat16)
    E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)

Array = NDArray[Any]

_QUIET_NAN = np.uint16(0x7FC0)
_E8M0_BIAS, _E8M0_NAN = 127, 255


def to_float32(rows: Array) -> NDArray[np.float32]:
    """The values of BF16 rows, exactly; rows of another floating type are cast."""
    if rows.dtype == np.uint16:
        return (rows.astype(np.uint32) << 16).view(np.float32)
    return rows.astype(np.float32)


def to_bf16(values: Array) -> Array:
    """FP32 values rounded to the nearest BF16, ties to even."""
    if np.uint16 != BF16:
        return values.astype(BF16)
    return bf16_bits(values)


def bf16_bits(values: Array) -> NDArray[np.uint16]:
    """The bits of `to_bf16`, by integer arithmetic alone; a NaN becomes the quiet one of its sign."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)
    sign = (words >> 16).astype(np.uint16) & np.uint16(0x8000)
    return np.where(np.isnan(values), sign | _QUIET_NAN, rounded)


def e4m3_values(codes: Array) -> NDArray[np.float32]:
    """The values of FP8 (E4M3, no infinities) rows or of their bytes."""
    return _E4M3_TABLE[codes.view(np.uint8)]


def e8m0_values(codes: Array) -> NDArray[np.float32]:
    """The powers of two that UE8M0 bytes stand for; 255 is NaN."""
    powers = np.ldexp(np.float32(1), np.minimum(codes, _E8M0_NAN - 1).astype(np.int32) - _E8M0_BIAS)
    return np.where(codes == _E8M0_NAN, np.float32(np.nan), powers).astype(np.float32)


def _e4m3_table() -> NDArray[np.float32]:
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent == 0, np.ldexp(mantissa / 8, -6), np.ldexp(1 + mantissa / 8, exponent - 7))
    magnitude[(codes & 0x7F) == 0x7F] = np.nan
    return np.copysign(magnitude, np.where(codes & 0x80, -1.0, 1.0)).astype(np.float32)


_E4M3_TABLE = _e4m3_table()
