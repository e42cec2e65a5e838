"""ctypes bindings of the CUDA target's library (afdep/csrc/cuda_abi.h)."""

import ctypes
import json
from ctypes import POINTER, c_char, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from afdep.abi import BuildInfo, ErrorRecordStruct, ReceivedStruct, ShapeStruct
from afdep.device_errors import DeviceError
from afdep.errors import BuildError

IPC_BYTES = 64
_NAME_BYTES = 32


class WaitRecordStruct(ctypes.Structure):
    """`afdep_wait_record` of cuda_abi.h."""

    _fields_: ClassVar = [
        ("name", c_char * _NAME_BYTES),
        ("peer", c_int32),
        ("cta", c_int32),
        ("expected", c_uint64),
        ("seen", c_uint64),
    ]


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "build_info": (c_char_p, []),
    "inbox_bytes": (c_int64, [POINTER(ShapeStruct)]),
    "cuda_error": (c_char_p, []),
    "cuda_window_bytes": (c_int64, [POINTER(ShapeStruct)]),
    "cuda_ipc_allocate": (c_void_p, [c_int64, c_char_p]),
    "cuda_ipc_open": (c_void_p, [c_char_p]),
    "cuda_ipc_close": (c_int32, [c_void_p]),
    "cuda_ipc_free": (c_int32, [c_void_p]),
    "cuda_create": (c_void_p, [POINTER(ShapeStruct), c_int32, POINTER(c_void_p), c_uint64]),
    "cuda_destroy": (c_int32, [c_void_p]),
    "cuda_set_timeout": (c_int32, [c_void_p, c_uint64]),
    "cuda_source_dispatch": (
        c_int32,
        [*[c_void_p] * 5, c_int32, c_void_p, c_int32, c_void_p, c_int32],
    ),
    "cuda_ffn_receive": (c_int32, [c_void_p, c_void_p, c_int32, POINTER(ReceivedStruct)]),
    "cuda_ffn_reply": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "cuda_source_collect": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "cuda_expert_transform": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "cuda_refuse": (c_int32, [c_void_p, c_void_p]),
    "cuda_poison": (c_int32, [c_void_p, c_void_p, c_int32, c_int32]),
    "cuda_behind": (c_int32, [c_void_p, POINTER(c_int32), POINTER(c_int32)]),
    "cuda_abort": (c_int32, [c_void_p, POINTER(c_uint64), POINTER(ErrorRecordStruct), POINTER(WaitRecordStruct)]),
}


class CudaLibrary:
    """A loaded library of the CUDA target."""

    def __init__(self, path: Path):
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise BuildError(f"native library: expected to load {path.name}, received: {error}.", _REBUILD) from error
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, f"afdep_{name}")
            function.restype = result
            function.argtypes = arguments

    def __getattr__(self, name: str) -> "ctypes._NamedFuncPointer":
        return getattr(self._library, f"afdep_{name}")  # type: ignore[no-any-return]

    @property
    def build_info(self) -> BuildInfo:
        return BuildInfo(**json.loads(self._library.afdep_build_info()))

    def check(self, status: int) -> None:
        """Raise DeviceError when a call gave other than 0."""
        if status != 0:
            raise DeviceError(self.reason())

    def reason(self) -> str:
        """Why this thread's last call failed."""
        return bytes(self._library.afdep_cuda_error()).decode()


_REBUILD = "Build it on this machine: make native TARGET=cuda."


@cache
def load(path: Path) -> CudaLibrary:
    """The library at `path`, loaded once a process."""
    return CudaLibrary(path)
