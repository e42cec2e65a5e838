"""ctypes bindings of the simulator's library (afdep/csrc/abi.h)."""

import ctypes
import json
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import ClassVar

from afdep.abi import BuildInfo, ErrorRecordStruct, ReceivedStruct, ShapeStruct
from afdep.errors import BuildError


class OptionsStruct(ctypes.Structure):
    """`afdep_sim_options` of abi.h."""

    _fields_: ClassVar = [("payload", c_int32), ("hunt", c_int32), ("seed", c_uint64)]


class KernelTimeStruct(ctypes.Structure):
    """`afdep_kernel_time` of abi.h."""

    _fields_: ClassVar = [
        ("name", c_char_p),
        ("rank", c_int32),
        ("exchange", c_int32),
        ("buffers", c_int32),
        ("start_ps", c_int64),
        ("end_ps", c_int64),
    ]


class BlockedWaitStruct(ctypes.Structure):
    """`afdep_blocked_wait` of abi.h."""

    _fields_: ClassVar = [
        ("kernel", c_char_p),
        ("wait", c_char_p),
        *((name, c_int32) for name in ("rank", "cta", "warp", "peer")),
        ("expected", c_uint64),
        ("seen", c_uint64),
    ]


_SIGNATURES = {
    "afdep_build_info": (c_char_p, []),
    "afdep_inbox_bytes": (c_int64, [POINTER(ShapeStruct)]),
    "afdep_sim_create": (
        c_void_p,
        [
            *(c_int32, POINTER(OptionsStruct), POINTER(c_char_p), POINTER(c_double), c_int32),
            *(c_char_p, c_int32),
        ],
    ),
    "afdep_sim_destroy": (None, [c_void_p]),
    "afdep_sim_add_buffers": (c_void_p, [c_void_p, POINTER(ShapeStruct), c_char_p, c_int32]),
    "afdep_sim_alloc": (c_void_p, [c_void_p, c_int32, c_int64]),
    "afdep_sim_free": (None, [c_void_p, c_int32, c_void_p]),
    "afdep_sim_owner": (c_int32, [c_void_p, c_void_p]),
    "afdep_source_dispatch": (
        None,
        [c_void_p, c_int32, c_void_p, c_void_p, c_void_p, c_int32, c_void_p, c_int32, c_void_p, c_int32],
    ),
    "afdep_ffn_receive": (None, [c_void_p, c_int32, c_int32, POINTER(ReceivedStruct)]),
    "afdep_ffn_reply": (None, [c_void_p, c_int32, c_void_p]),
    "afdep_source_collect": (None, [c_void_p, c_int32, c_void_p]),
    "afdep_expert_transform": (None, [c_void_p, c_int32, c_void_p]),
    "afdep_refuse": (None, [c_void_p, c_int32]),
    "afdep_sim_refuse_beside": (None, [c_void_p, c_int32, c_double]),
    "afdep_sim_delay": (None, [c_void_p, c_int32, c_double]),
    "afdep_sim_begin_capture": (None, [c_void_p]),
    "afdep_sim_end_capture": (c_int32, [c_void_p]),
    "afdep_sim_replay": (None, [c_void_p, c_int32]),
    "afdep_sim_set_payload": (None, [c_void_p, c_int32]),
    "afdep_sim_run": (c_int32, [c_void_p]),
    "afdep_sim_fault": (c_char_p, [c_void_p]),
    "afdep_sim_blocked": (c_int32, [c_void_p, POINTER(BlockedWaitStruct), c_int32]),
    "afdep_sim_abort": (c_uint64, [c_void_p, c_int32, POINTER(ErrorRecordStruct)]),
    "afdep_sim_lose_patience": (None, [c_void_p, c_int32, c_int32, c_double]),
    "afdep_sim_note": (None, [c_void_p, c_int32, POINTER(c_void_p), POINTER(c_int64), c_int32]),
    "afdep_sim_notes": (c_int32, [c_void_p, c_int32]),
    "afdep_sim_read_note": (c_uint64, [c_void_p, c_int32, c_int32, c_void_p]),
    "afdep_sim_poison": (None, [c_void_p, c_int32, c_int32, c_int32]),
    "afdep_sim_trace": (c_int32, [c_void_p, POINTER(KernelTimeStruct), c_int32]),
    "afdep_sim_clear_trace": (None, [c_void_p]),
}


class NativeLibrary:
    """A loaded library; its functions are attributes without the prefix `afdep_`."""

    def __init__(self, path: Path):
        self._library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.restype = result
            function.argtypes = arguments

    def __getattr__(self, name: str) -> "ctypes._NamedFuncPointer":
        return getattr(self._library, f"afdep_{name}")  # type: ignore[no-any-return]

    @property
    def build_info(self) -> BuildInfo:
        return BuildInfo(**json.loads(self._library.afdep_build_info()))


@cache
def load(path: Path) -> NativeLibrary:
    """The library at `path`, loaded once a process.

    Raises:
        BuildError: no such file, or not a library of this tree.
    """
    try:
        return NativeLibrary(path)
    except (OSError, AttributeError) as error:
        raise BuildError(
            f"native library: expected one built from this tree, received {path}: {error}.",
            "Leave `library` out to have it built.",
        ) from error
