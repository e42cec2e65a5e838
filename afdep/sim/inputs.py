"""What a caller hands to a dispatch, checked and brought into the form the kernels read."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from afdep import calls, routing
from afdep.dtypes import DispatchDtype
from afdep.elements import BF16, E4M3
from afdep.errors import ShapeError
from afdep.shapes import ExchangeShape

Array = NDArray[Any]

BYTE = np.dtype(np.uint8)

_RAW = {BF16: np.dtype(np.uint16), BYTE: E4M3}
"""The other dtype that rows of an element may come in, of the same bits."""


@dataclass(frozen=True)
class Outgoing:
    """A checked dispatch.

    Args:
        x: contiguous rows [T, H].
        scales: uint32 [T, words], or None for BF16.
        ids: int32 or int64 [T, K].
        weights: fp32 [T, K], or None.
        tokens: how many of the T rows count, or may count where `num_tokens` says how many.
        num_tokens: int32 of one element, or None.
    """

    x: Array
    scales: Array | None
    ids: Array
    weights: Array | None
    tokens: int
    num_tokens: Array | None


def outgoing(
    shape: ExchangeShape, x: object, topk_idx: object, topk_weights: object, bucket: int, num_tokens: object
) -> Outgoing:
    """Check the arguments of `SimBuffer.source_dispatch`.

    Raises:
        ShapeError, IdTypeError, CapacityError: naming the argument.
    """
    payload, scales = calls.rows_and_scales(x)
    rows = _payload(_numpy(payload), shape.dtype, shape.hidden)
    word = _token_word(num_tokens)
    tokens = shape.tokens(len(rows), bucket, num_tokens) if word is None else shape.most_tokens(len(rows), bucket)
    ids = routing.check_ids(_numpy(topk_idx), len(rows), shape.top_k, shape.num_experts)
    weights = None if topk_weights is None else _weights(_numpy(topk_weights), ids.shape)
    return Outgoing(rows, _scales(shape, scales, len(rows)), ids, weights, tokens, word)


def replies(shape: ExchangeShape, out: object, rows: int) -> Array:
    """Check the rows of `SimBuffer.ffn_reply`: contiguous BF16, at most as many as were received at most.

    Raises:
        ShapeError: another shape or dtype.
    """
    array = _numpy(out)
    if array.dtype != BF16 or array.ndim != 2 or array.shape[1] != shape.hidden or len(array) > rows:
        expected = f"BF16 [up to {rows}, {shape.hidden}]"
        raise ShapeError("out", expected, f"{array.dtype}{list(array.shape)}", "Pass a row for each row of received.x.")
    return np.ascontiguousarray(array)


def element(dtype: DispatchDtype) -> np.dtype[Any]:
    """How numpy holds an element: BF16, or the raw byte of an FP8."""
    return BF16 if dtype.element_bytes == 2 else BYTE


def _numpy(value: object) -> Array:
    """A numpy array, or a CPU torch tensor as one without a copy."""
    if type(value).__module__.partition(".")[0] != "torch":
        return np.asarray(value)
    tensor: Any = value
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "bfloat16":
        return np.asarray(tensor.detach().contiguous().view(_torch_dtype(tensor, "int16")).numpy()).view(BF16)
    if name == "float8_e4m3fn":
        return np.asarray(tensor.detach().contiguous().view(_torch_dtype(tensor, "uint8")).numpy())
    return np.asarray(tensor.detach().numpy())


def _torch_dtype(tensor: Any, name: str) -> Any:
    return getattr(sys.modules[type(tensor).__module__.partition(".")[0]], name)


def _payload(x: Array, dtype: DispatchDtype, hidden: int) -> Array:
    held = element(dtype)
    if x.dtype == _RAW[held]:
        x = x.view(held)
    if x.dtype != held or x.ndim != 2 or x.shape[1] != hidden:
        expected = f"{dtype.name} [T, {hidden}]"
        raise ShapeError("x", expected, f"{x.dtype}{list(x.shape)}", "Cast and reshape x; T may be 0 as [0, H].")
    return np.ascontiguousarray(x)


def _token_word(num_tokens: object) -> Array | None:
    """The word that says how many tokens there are, where `num_tokens` is an array or a tensor."""
    if not hasattr(num_tokens, "dtype") or isinstance(num_tokens, np.integer):
        return None
    word = _numpy(num_tokens)
    if word.dtype != np.int32 or word.size != 1:
        expected, received = "an integer, or int32 of one element", f"{word.dtype}{list(word.shape)}"
        raise ShapeError("num_tokens", expected, received, "Pass the count as one int32 to have it read later.")
    return word


def _weights(weights: Array, shape: tuple[int, ...]) -> Array:
    if weights.dtype != np.float32 or weights.shape != shape:
        expected, received = f"float32{list(shape)}", f"{weights.dtype}{list(weights.shape)}"
        raise ShapeError("topk_weights", expected, received, "Pass a weight for each id, in fp32.")
    return np.ascontiguousarray(weights)


def _scales(shape: ExchangeShape, scales: object, tokens: int) -> Array | None:
    words = calls.scale_words(shape, scales, tokens)
    if scales is None:
        return None
    array = _numpy(scales)
    if array.dtype.itemsize != 4 or array.shape != (tokens, words):
        expected = f"4-byte words [{tokens}, {words}]"
        next_step = f"One word for each group of {128 * shape.dtype.groups_per_word} elements of a row."
        raise ShapeError("scales", expected, f"{array.dtype}{list(array.shape)}", next_step)
    return np.ascontiguousarray(array).view(np.uint32)
