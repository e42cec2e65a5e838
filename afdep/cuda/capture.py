"""What cannot be part of a CUDA graph says so before it touches the device, so that the capture goes on."""

import torch

from afdep.device_errors import CaptureError

_BUILD_BEFORE = "Build before capture: make the Buffer, and exchange once, ahead of torch.cuda.graph."


def require_none(call: str, next_step: str = _BUILD_BEFORE) -> None:
    """Refuse a call under capture.

    Raises:
        CaptureError: the current stream is being captured.
    """
    if torch.cuda.is_current_stream_capturing():
        raise CaptureError(call, next_step)
