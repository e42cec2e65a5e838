"""What a rank's kernels left behind when they gave up, as an exception of the host."""

from ctypes import byref, c_uint64

from afdep.cuda.native import CudaLibrary, WaitRecordStruct
from afdep.device_errors import WaitTimeoutError
from afdep.errors import PeerRefusedError
from afdep.group import REFUSED, assertion
from afdep.native import ErrorRecordStruct

_TIMED_OUT = 0xFFFFFFFF
_UNKNOWN = (-1, -1, -1)
"""Token, lane and id of another rank's assertion: its own exception names them."""


def check(native: CudaLibrary, handle: int, rank: int) -> None:
    """Raise what the rank's abort word says, if anything.

    Raises:
        WaitTimeoutError, DeviceAssertion, PeerRefusedError
    """
    word, error, wait = c_uint64(), ErrorRecordStruct(), WaitRecordStruct()
    native.check(native.cuda_abort(handle, byref(word), byref(error), byref(wait)))
    if word.value == 0:
        return
    failure, origin = word.value >> 32, (word.value & 0xFFFFFFFF) - 1
    if failure == _TIMED_OUT:
        peer = None if wait.peer < 0 else int(wait.peer)
        raise WaitTimeoutError(rank, wait.name.decode(), peer, wait.expected, wait.seen)
    if failure == REFUSED:
        raise PeerRefusedError(origin)
    place = (error.token, error.lane, error.expert) if origin == rank else _UNKNOWN
    raise assertion(failure, origin, *place)
