"""A CUDA of the host: streams and captures that a Buffer meets, with a log of what was launched where."""

from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import torch

from afdep import DeviceError
from afdep.cuda import Buffer, agreement, buffer


class Stream:
    """A stream that says who waited for whom."""

    def __init__(self, cuda):
        self.cuda, self.captured = cuda, False
        cuda.streams.append(self)
        self.cuda_stream = len(cuda.streams)

    def wait_stream(self, other):
        self.captured |= other.captured
        self.cuda.log.append(("waits", self.cuda_stream, other.cuda_stream))

    def synchronize(self):
        pass


class End:
    """A NativeRank that logs its calls, and refuses those in `failing`."""

    maker = "ipc"

    def __init__(self, cuda):
        self.cuda, self.failing, self.released = cuda, set(), 0

    def call(self, name, stream, *arguments):
        self.cuda.log.append((name, stream))
        if name in self.failing:
            raise DeviceError(f"{name} refused")

    def set_timeout(self, timeout_s):
        self.cuda.log.append(("timeout", timeout_s))

    def check_failure(self):
        pass

    def release(self):
        self.released += 1


class Row(torch.Tensor):
    """A tensor of the host that says it lies on GPU 0."""

    is_cuda, device, recorded = True, torch.device("cuda", 0), ()

    def record_stream(self, stream):
        self.recorded = (*self.recorded, stream)


def row(*shape, dtype=torch.bfloat16):
    return torch.zeros(shape, dtype=dtype).as_subclass(Row)


class Cuda:
    """Patches in the fakes; `told` holds what this rank passed to its peers as a Buffer was made."""

    def __init__(self, monkeypatch):
        self.log, self.streams, self.told, self.barriers, self.end = [], [], [], 0, End(self)
        self.current = Stream(self)
        make = Mock(side_effect=lambda priority: Stream(self))
        make.priority_range.return_value = (0, -5)
        fakes = {"Stream": make, "stream": self._on, "current_stream": lambda: self.current}
        fakes |= {"is_current_stream_capturing": lambda: self.current.captured}
        fakes |= {"current_device": lambda: 0, "synchronize": lambda: None}
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        library = SimpleNamespace(build_info=SimpleNamespace(digest="n0"))
        monkeypatch.setattr(buffer.native, "load", lambda path: library)
        monkeypatch.setattr(buffer, "NativeRank", lambda *arguments: self.end)
        monkeypatch.setattr(agreement, "gathered", lambda group, own: self.told.append(own) or [own, own])
        monkeypatch.setattr(buffer.dist, "get_world_size", lambda group: 2)
        monkeypatch.setattr(buffer.dist, "get_rank", lambda group: 1)
        monkeypatch.setattr(buffer.dist, "barrier", self._barrier)

    @contextmanager
    def _on(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def _barrier(self, group):
        self.barriers += 1

    @contextmanager
    def capturing(self):
        """The current stream is captured; streams that joined leave with it."""
        self.current.captured = True
        yield
        for stream in self.streams:
            stream.captured = False

    def source(self, **changes):
        """A Buffer of the source of 1A1F."""
        shape = {"layout": "1A1F", "hidden": 256, "num_experts": 16, "top_k": 4, "capacity": 64}
        return Buffer(None, library="built", arm="afdep", **(shape | changes))

    def launched(self, name):
        """The streams that a call was launched on, in order."""
        return [entry[1] for entry in self.log if entry[0] == name]
