"""Tensors over memory that the native library owns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_TYPES: dict[Any, tuple[str, Any]] = {
    torch.bfloat16: ("<i2", torch.int16),
    torch.float8_e4m3fn: ("|u1", torch.uint8),
    torch.float32: ("<f4", torch.float32),
    torch.int32: ("<i4", torch.int32),
}
"""For each element type, what the array interface calls memory of that size, and torch's name for that."""


@dataclass(frozen=True)
class _Memory:
    """What `torch.as_tensor` reads a foreign address from; the tensor keeps it, and so `owner`, alive."""

    owner: object
    __cuda_array_interface__: dict[str, Any]


def address(memory: Any) -> int | None:
    """Where a tensor's elements lie; None for None."""
    return None if memory is None else int(memory.data_ptr())


def tensor(owner: object, at: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """A tensor of the current device over native memory that keeps `owner` alive."""
    if 0 in shape:
        return torch.empty(shape, dtype=dtype, device="cuda")
    typestr, held_as = _TYPES[dtype]
    interface = {"shape": shape, "typestr": typestr, "data": (at, False), "version": 3, "strides": None}
    memory = torch.as_tensor(_Memory(owner, interface), device="cuda")
    return memory if dtype == held_as else memory.view(dtype)


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A tensor's bytes as a numpy array; BF16 as ml_dtypes' bfloat16, FP8 as raw bytes."""
    if value.dtype == torch.bfloat16:
        from afdep.reference import BF16

        return value.detach().cpu().view(torch.int16).numpy().view(BF16)  # type: ignore[no-any-return]
    if value.dtype == torch.float8_e4m3fn:
        return value.detach().cpu().view(torch.uint8).numpy()  # type: ignore[no-any-return]
    return value.detach().cpu().numpy()  # type: ignore[no-any-return]


def to_device(array: np.ndarray[Any, Any]) -> Any:
    """A copy of a numpy array on the current device; bfloat16 becomes torch's."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array)).cuda()
