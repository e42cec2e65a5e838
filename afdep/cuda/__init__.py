"""The CUDA target: Buffers on GPUs, one process a rank. Needs torch; nothing else of `afdep` does."""

try:
    import torch as _torch  # noqa: F401 - asked for here, so that what needs it is named where it is missing
except ModuleNotFoundError as error:
    from afdep.device_errors import TorchMissingError

    if error.name != "torch":
        raise
    raise TorchMissingError from error

from afdep.cuda.buffer import Buffer
from afdep.cuda.counts import HostCounts
from afdep.cuda.received import DeviceReceived, HostReceived, on_host

__all__ = ["Buffer", "DeviceReceived", "HostCounts", "HostReceived", "on_host"]
