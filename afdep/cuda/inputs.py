"""Host checks of what a Buffer is called with."""

from dataclasses import dataclass
from typing import Any

import torch

from afdep import calls
from afdep.dtypes import DispatchDtype
from afdep.errors import IdTypeError, ShapeError
from afdep.shapes import ExchangeShape


@dataclass(frozen=True)
class Outgoing:
    """A checked dispatch: contiguous tensors of the Buffer's device, `scales` and `weights` where there are some."""

    x: Any
    scales: Any | None
    ids: Any
    weights: Any | None
    tokens: int
    num_tokens: Any | None


def outgoing(shape: ExchangeShape, x: Any, topk_idx: Any, topk_weights: Any, bucket: int, num_tokens: Any) -> Outgoing:
    """Check the arguments of `Buffer.source_dispatch`.

    Raises:
        ShapeError, IdTypeError, CapacityError: naming the argument.
    """
    rows, scales = calls.rows_and_scales(x)
    _check("x", rows, (None, shape.hidden), element(shape.dtype))
    _check_aligned("x", rows)
    word = num_tokens if isinstance(num_tokens, torch.Tensor) else None
    tokens = shape.tokens(len(rows), bucket, num_tokens) if word is None else shape.most_tokens(len(rows), bucket)
    if word is not None:
        _check("num_tokens", word, (1,), torch.int32)
    if not isinstance(topk_idx, torch.Tensor) or topk_idx.dtype not in (torch.int32, torch.int64):
        raise IdTypeError(str(getattr(topk_idx, "dtype", type(topk_idx).__name__)), shape.num_experts)
    _check("topk_idx", topk_idx, (len(rows), shape.top_k), topk_idx.dtype)
    if topk_weights is not None:
        _check("topk_weights", topk_weights, (len(rows), shape.top_k), torch.float32)
    return Outgoing(rows, _scales(shape, scales, len(rows)), topk_idx, topk_weights, tokens, word)


def check_replies(shape: ExchangeShape, out: Any, rows: int) -> None:
    """Check the rows of `Buffer.ffn_reply`, or those that take the collected: BF16 [rows, H] on the current GPU.

    Raises:
        ShapeError: another shape, dtype, place or alignment.
    """
    _check("out", out, (rows, shape.hidden), torch.bfloat16)
    _check_aligned("out", out)


_ALIGNMENT = 16
"""Bytes: kernels read and write rows in vectors and by bulk copies of so many."""

_DTYPE_NAMES = {"torch.bfloat16": "bf16", "torch.float8_e4m3fn": "fp8"}


def dtype_name(dispatch_dtype: object) -> str:
    """The name of a dispatch dtype that is given as torch's, or by name."""
    return _DTYPE_NAMES.get(str(dispatch_dtype), str(dispatch_dtype))


def element(dtype: DispatchDtype) -> Any:
    """Torch's dtype of a dispatched element."""
    return torch.bfloat16 if dtype.element_bytes == 2 else torch.float8_e4m3fn


def _scales(shape: ExchangeShape, scales: Any, tokens: int) -> Any | None:
    words = calls.scale_words(shape, scales, tokens)
    if scales is not None:
        _check("scales", scales, (tokens, words), scales.dtype)
        if scales.element_size() != 4:
            raise ShapeError("scales", "4-byte words", scales.dtype, "Pass fp32 scales, or packed UE8M0 as int32.")
    return scales


def _check(argument: str, value: Any, shape: tuple[int | None, ...], dtype: Any) -> None:
    wanted = f"{dtype} {['any' if size is None else size for size in shape]}, contiguous on the current GPU"
    if not isinstance(value, torch.Tensor):
        raise ShapeError(argument, wanted, type(value).__name__, "Pass a torch tensor.")
    fits = value.dim() == len(shape) and all(w is None or w == n for w, n in zip(shape, value.shape, strict=True))
    if not fits or value.dtype != dtype or not value.is_cuda or not value.is_contiguous():
        received = f"{value.dtype} {list(value.shape)} on {value.device}"
        raise ShapeError(argument, wanted, received, "Cast, reshape or move it before the call.")
    if value.device.index != torch.cuda.current_device():
        current = f"on the current GPU, cuda:{torch.cuda.current_device()}"
        raise ShapeError(argument, current, str(value.device), "Make the Buffer's GPU current: torch.cuda.set_device.")


def _check_aligned(argument: str, value: Any) -> None:
    beyond = value.data_ptr() % _ALIGNMENT
    if beyond:
        expected, received = f"memory aligned to {_ALIGNMENT} bytes", f"{beyond} bytes beyond"
        raise ShapeError(argument, expected, received, "Copy it with .clone(), or slice it at a row of its allocation.")
