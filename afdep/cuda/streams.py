"""The order of a Buffer's stream among the caller's, and streams that no capture holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from afdep.device_errors import DeviceError

_POOL = 32
"""Streams of one priority that torch hands out in turn (CUDA semantics, torch.cuda.Stream)."""


def high_priority() -> Any:
    """The next high-priority stream of torch's pool; after a round of the pool, one that others have too."""
    return torch.cuda.Stream(priority=torch.cuda.Stream.priority_range()[1])


def outside_capture(stream: Any) -> Any:
    """The stream, or another one while it is being captured: what is launched there runs now, in no graph.

    Raises:
        DeviceError: every stream of the pool is being captured.
    """
    for _ in range(_POOL + 1):
        if not is_captured(stream):
            return stream
        stream = high_priority()
    raise DeviceError("captures that hold every stream of torch's pool")


def is_captured(stream: Any) -> bool:
    """Whether the stream is part of a capture that goes on."""
    with torch.cuda.stream(stream):
        return bool(torch.cuda.is_current_stream_capturing())


@contextmanager
def ordered(stream: Any, *used: Any) -> Iterator[int]:
    """The stream as the native library takes it, behind the current one before and ahead of it after, come what may.

    Args:
        stream: the stream that is enqueued on.
        used: tensors that what is enqueued uses; None stands for none.
    """
    current = torch.cuda.current_stream()
    stream.wait_stream(current)
    try:
        for memory in used:
            if memory is not None:
                memory.record_stream(stream)
        yield stream.cuda_stream
    finally:
        current.wait_stream(stream)
