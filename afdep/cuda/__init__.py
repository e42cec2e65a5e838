"""The CUDA target: Buffers on GPUs, one process a rank. Needs torch; nothing else of `afdep` does."""

from afdep.cuda.buffer import DeviceBuffer
from afdep.cuda.counts import HostCounts
from afdep.cuda.received import DeviceReceived, HostReceived, on_host

__all__ = ["DeviceBuffer", "DeviceReceived", "HostCounts", "HostReceived", "on_host"]
