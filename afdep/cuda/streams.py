"""The order of a Buffer's stream among the caller's."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def ordered(stream: Any, *used: Any) -> Iterator[int]:
    """The stream as the native library takes it, behind the current one before and ahead of it after.

    Args:
        stream: the stream that is enqueued on.
        used: tensors that what is enqueued uses; None stands for none.
    """
    current = torch.cuda.current_stream()
    stream.wait_stream(current)
    for memory in used:
        if memory is not None:
            memory.record_stream(stream)
    yield stream.cuda_stream
    current.wait_stream(stream)
