"""What a rank's kernels left behind when they gave up, as an exception of the host."""

from ctypes import byref, c_int32, c_uint64

from afdep.abi import ErrorRecordStruct
from afdep.cuda.native import CudaLibrary, WaitRecordStruct
from afdep.device_errors import PeerTimeoutError, WaitTimeoutError
from afdep.failure_codes import Failure, reported
from afdep.layout import MAX_RANKS

_UNKNOWN = (-1, -1, -1)
"""Token, lane and id of another rank's assertion: its own exception names them."""


def check(native: CudaLibrary, handle: int, rank: int) -> None:
    """Raise what the rank's abort word says, if anything.

    Raises:
        WaitTimeoutError: a wait of this rank ended without its peer.
        PeerTimeoutError: one of another rank did, which told this one.
        DeviceAssertion, BucketMismatchError, PeerRefusedError
    """
    word, error, wait = c_uint64(), ErrorRecordStruct(), WaitRecordStruct()
    native.check(native.cuda_abort(handle, byref(word), byref(error), byref(wait)))
    if word.value == 0:
        return
    failure, missing, origin = word.value >> 32, (word.value >> 16 & 0xFFFF) - 1, (word.value & 0xFFFF) - 1
    if failure != Failure.timed_out:
        known = origin == rank and error.failure == failure
        raise reported(failure, origin, *((error.token, error.lane, error.expert) if known else _UNKNOWN))
    peer = None if missing < 0 else missing
    if origin != rank:
        raise PeerTimeoutError(origin, peer)
    missing_ranks = _behind(native, handle) if peer is None else [peer]
    awaited = None if wait.peer < 0 else wait.peer
    raise WaitTimeoutError(rank, wait.name.decode(), missing_ranks, wait.expected, wait.seen, awaited)


def _behind(native: CudaLibrary, handle: int) -> list[int]:
    """The ranks that an all-rank barrier of this rank still waits for."""
    ranks, count = (c_int32 * MAX_RANKS)(), c_int32()
    native.check(native.cuda_behind(handle, ranks, byref(count)))
    return list(ranks[: count.value])
