"""The host's BF16 and FP8 arithmetic is that of ml_dtypes, which it does without."""

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from afdep import elements

ROOT = Path(__file__).resolve().parents[2]
BITS = np.arange(2**16, dtype=np.uint32)
WITHOUT = """
import sys
sys.modules["ml_dtypes"] = sys.modules["yaml"] = None
import numpy as np
from afdep import fp8, reference, routing
from afdep.dtypes import dispatch_dtype
x = reference.payload(16, 64, 3)
ids = routing.make("random", 16, 16, 4, 3)
y = reference.combine(x, ids, num_ffn_ranks=2, num_experts=16, expert=reference.cancelling_experts)
rows, scales = fp8.payload(16, 64, dispatch_dtype("fp8-ue8m0"), 3)
z = fp8.decode(rows, scales, dispatch_dtype("fp8-ue8m0"))
print(y.dtype, y.tobytes().hex(), z.tobytes().hex())
"""


def words() -> np.ndarray:
    """Every BF16, and beside each the ties and neighbours that rounding must tell apart."""
    return np.concatenate([BITS << 16 | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).view(np.float32)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_rounding_to_bf16_is_that_of_ml_dtypes() -> None:
    values = words()
    assert np.array_equal(elements.bf16_bits(values), values.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_bf16_bits_read_as_their_values() -> None:
    bits = BITS.astype(np.uint16)
    expected = bits.view(ml_dtypes.bfloat16).astype(np.float32).view(np.uint32)
    assert np.array_equal(elements.to_float32(bits).view(np.uint32), expected)


@pytest.mark.parametrize(
    ("values", "kind"),
    [(elements.e4m3_values, ml_dtypes.float8_e4m3fn), (elements.e8m0_values, ml_dtypes.float8_e8m0fnu)],
)
def test_fp8_codes_read_as_their_values(values, kind) -> None:
    codes = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(values(codes), codes.view(kind).astype(np.float32))


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_references_are_the_same_without_ml_dtypes() -> None:
    bare, full = run(WITHOUT), run(WITHOUT.replace('sys.modules["ml_dtypes"] = ', ""))
    assert (bare[0], full[0]) == ("uint16", "bfloat16")
    assert bare[1:] == full[1:]
