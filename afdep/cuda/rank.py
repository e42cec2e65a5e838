"""A rank in the native library: its windows, its handle and the calls on it."""

from ctypes import byref, c_void_p
from typing import Any

from afdep.abi import ShapeStruct
from afdep.cuda import agreement, failures, windows
from afdep.cuda.makers import Maker
from afdep.cuda.native import CudaLibrary
from afdep.device_errors import DeviceError
from afdep.errors import DeadBufferError


class NativeRank:
    """One rank on the current device; making it is collective.

    Args:
        native: the library.
        group: of the ranks.
        rank: which one this is.
        shape: of the exchanges.
        wanted: the maker of windows, None for the suitable one.
        timeout_s: of one wait.

    Raises:
        DeviceError: CUDA refused on a rank; every rank raises it.

    Its calls raise DeadBufferError once it is released.
    """

    def __init__(
        self, native: CudaLibrary, group: Any, rank: int, shape: ShapeStruct, wanted: Maker | None, timeout_s: float
    ):
        self._native = native
        self._rank = rank
        self._windows = windows.make(native, group, int(native.cuda_window_bytes(byref(shape))), wanted)
        addresses = (c_void_p * len(self._windows.addresses))(*self._windows.addresses)
        self._created = native.cuda_create(byref(shape), rank, addresses, _ns(timeout_s))
        if problem := agreement.first_problem(group, None if self._created else native.reason()):
            self.release()
            raise DeviceError(problem)

    @property
    def maker(self) -> Maker:
        """Who made the windows."""
        return self._windows.maker

    def set_timeout(self, timeout_s: float) -> None:
        """Change how long one wait of the calls that follow may take."""
        self._native.check(self._native.cuda_set_timeout(self._handle, _ns(timeout_s)))

    def call(self, name: str, stream: int, *arguments: Any) -> None:
        """Enqueue a call of the library on a stream."""
        self._native.check(getattr(self._native, name)(self._handle, stream, *arguments))

    def check_failure(self) -> None:
        """Raise what the rank's kernels gave up with, if they did; see `failures.check`."""
        failures.check(self._native, self._handle, self._rank)

    def release(self) -> None:
        """Give everything back; collective, once the device has finished with every rank.

        Raises:
            DeviceError: CUDA refused; the peers have been met.
        """
        handle, self._created = self._created, None
        try:
            if handle:
                self._native.check(self._native.cuda_destroy(handle))
        finally:
            self._windows.release()

    @property
    def _handle(self) -> Any:
        if self._created is None:
            raise DeadBufferError("it was closed")
        return self._created


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
