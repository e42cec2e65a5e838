"""One simulated group in the native library: its memory, and what its kernels report."""

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from afdep.abi import ErrorRecordStruct, ReceivedStruct, ShapeStruct
from afdep.errors import BuildError, DeadlockError, MemoryFaultError, OutOfMemoryError, ShapeError
from afdep.sim.native import BlockedWaitStruct, KernelTimeStruct, NativeLibrary, OptionsStruct

_ERROR_BYTES = 512
_MAX_WAITS = 4096


@dataclass(frozen=True)
class KernelTime:
    """When a kernel ran.

    Args:
        rank: the rank it ran on.
        name: "dispatch", "copy_epilogue", "combine", "reduce_epilogue", or "copy_replies" where one rank replies.
        exchange: which of its Buffer's exchanges it belonged to, from 1.
        buffers: which set of Buffers that one was of, in the order they were made, from 0.
        start_us: its CTAs were placed, in simulated us.
        end_us: its last CTA was gone and its writes were flushed.
    """

    rank: int
    name: str
    exchange: int
    buffers: int
    start_us: float
    end_us: float


@dataclass(frozen=True)
class BlockedWait:
    """A wait that nothing can end: who waits in which kernel, for whom, and for which value of a word."""

    rank: int
    kernel: str
    cta: int
    warp: int
    wait: str
    peer: int | None
    expected: int
    seen: int

    def __str__(self) -> str:
        of = "" if self.peer is None else f" of rank {self.peer}"
        where = f"rank {self.rank} {self.kernel} CTA {self.cta} warp {self.warp}"
        wanted = f"other than {self.expected}" if self.expected == self.seen else str(self.expected)
        return f"{where} waits for {self.wait}{of} (expected {wanted}, seen {self.seen})"


@dataclass(frozen=True)
class Abort:
    """Why a rank was told to give up: the failure's code and the rank that raised it, with its error record."""

    failure: int
    rank: int
    token: int
    lane: int
    expert: int


class Allocation:
    """Memory of one simulated rank, given back when the last array on it is gone."""

    def __init__(self, simulator: "Simulator", rank: int, num_bytes: int):
        address = simulator.native.sim_alloc(simulator.handle, rank, num_bytes)
        if not address:
            raise OutOfMemoryError(f"{num_bytes} bytes more on rank {rank}")
        self.address = int(address)
        self.num_bytes = num_bytes
        self._simulator = simulator
        weakref.finalize(self, _give_back, simulator, rank, self.address)

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """The memory as an array that keeps it alive."""
        return view(self, self.address, shape, dtype)


def _give_back(simulator: "Simulator", rank: int, address: int) -> None:
    simulator.native.sim_free(simulator.handle, rank, address)


def view(owner: object, address: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array over native memory that keeps `owner` alive."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.zeros(shape, kind)
    memory = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
    memory.owner = owner  # type: ignore[attr-defined]
    flat: NDArray[Any] = np.frombuffer(memory, kind)  # type: ignore[call-overload]
    return flat.reshape(shape)


class Simulator:
    """The native world: simulated ranks, their memory and their clock."""

    def __init__(self, native: NativeLibrary, num_ranks: int, options: OptionsStruct, constants: Mapping[str, float]):
        self.native = native
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        names = (ctypes.c_char_p * len(constants))(*(name.encode() for name in constants))
        values = (ctypes.c_double * len(constants))(*constants.values())
        self.handle = native.sim_create(num_ranks, byref(options), names, values, len(constants), error, _ERROR_BYTES)
        if not self.handle:
            reason = error.value.decode()
            if "bad_alloc" in reason:
                raise OutOfMemoryError(f"the address space of {num_ranks} ranks")
            raise BuildError(f"native world: {reason}.", "The machine file and the library are of different trees.")
        weakref.finalize(self, native.sim_destroy, self.handle)

    def add_buffers(self, shape: ShapeStruct) -> int:
        """A Buffer on every rank, for as long as the simulator lives; its native handle.

        Raises:
            OutOfMemoryError: no room for a window or for what is received.
            ShapeError: records that the machine does not carry, or other ranks than there are.
        """
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        handle = self.native.sim_add_buffers(self.handle, byref(shape), error, _ERROR_BYTES)
        if handle:
            return int(handle)
        reason = error.value.decode()
        if "bad_alloc" in reason:
            raise OutOfMemoryError("the window and the received rows of every rank")
        raise ShapeError("shape", "an exchange the machine carries", reason, "Choose a smaller record or layout.")

    def allocate(self, rank: int, num_bytes: int) -> Allocation:
        """Zeroed memory of a rank."""
        return Allocation(self, rank, num_bytes)

    def receive(self, buffers: int, rank: int, bucket: int) -> ReceivedStruct:
        received = ReceivedStruct()
        self.native.ffn_receive(buffers, rank, bucket, byref(received))
        return received

    def run(self) -> None:
        """Run until everything enqueued is done.

        Raises:
            DeadlockError: a wait that nothing can end.
            MemoryFaultError: a kernel left its memory.
        """
        status = self.native.sim_run(self.handle)
        if status == 1:
            raise DeadlockError(self.blocked())
        if status == 2:
            raise MemoryFaultError(self.native.sim_fault(self.handle).decode())

    def blocked(self) -> list[BlockedWait]:
        """The waits of the last deadlock, by rank."""
        waits = (BlockedWaitStruct * _MAX_WAITS)()
        count = min(self.native.sim_blocked(self.handle, waits, _MAX_WAITS), _MAX_WAITS)
        found = [
            BlockedWait(
                w.rank,
                w.kernel.decode(),
                w.cta,
                w.warp,
                w.wait.decode(),
                None if w.peer < 0 else w.peer,
                w.expected,
                w.seen,
            )
            for w in waits[:count]
        ]
        return sorted(found, key=lambda wait: (wait.rank, wait.cta, wait.warp))

    def abort(self, buffers: int, rank: int) -> Abort | None:
        """What told a rank to give up on the exchanges of some Buffers, if anything did."""
        record = ErrorRecordStruct()
        word = self.native.sim_abort(buffers, rank, byref(record))
        if word == 0:
            return None
        origin = (word & 0xFFFF) - 1
        self.native.sim_abort(buffers, origin, byref(record))
        return Abort(word >> 32, origin, record.token, record.lane, record.expert)

    def refuse_beside(self, buffers: int, rank: int, after_us: float) -> None:
        """A rank refuses so much later than now, beside what its stream holds."""
        self.native.sim_refuse_beside(buffers, rank, after_us * 1e3)

    def lose_patience(self, rank: int, waits: int, after_us: float) -> None:
        """A rank's wait that is the `waits`-th to block from now on, counted from 0, times out so much later."""
        self.native.sim_lose_patience(self.handle, rank, waits, after_us * 1e3)

    def note(self, buffers: int, rank: int, arrays: Sequence[NDArray[Any]]) -> None:
        """Enqueue a note: a rank's abort word and some arrays of its memory, behind what its stream holds."""
        blocks = [array for array in arrays if array.nbytes > 0]  # the others have no address
        addresses = (ctypes.c_void_p * len(blocks))(*(array.ctypes.data for array in blocks))
        sizes = (ctypes.c_int64 * len(blocks))(*(array.nbytes for array in blocks))
        self.native.sim_note(buffers, rank, addresses, sizes, len(blocks))

    def notes(self, buffers: int, rank: int) -> int:
        """How many notes of a rank were taken."""
        return int(self.native.sim_notes(buffers, rank))

    def read_note(
        self, buffers: int, rank: int, number: int, arrays: Sequence[NDArray[Any]]
    ) -> tuple[int, list[NDArray[Any]]]:
        """The abort word of a note that was taken, and its arrays, of the shapes and types of `arrays`."""
        memory = np.zeros(max(1, sum(array.nbytes for array in arrays)), np.uint8)
        word = int(self.native.sim_read_note(buffers, rank, number, memory.ctypes.data))
        ends = np.cumsum([array.nbytes for array in arrays])
        parts = np.split(memory[: ends[-1]], ends[:-1]) if len(arrays) else []
        return word, [part.view(one.dtype).reshape(one.shape) for part, one in zip(parts, arrays, strict=True)]

    def take_trace(self) -> list[KernelTime]:
        """The kernels that completed since the last call, in order of completion."""
        count = self.native.sim_trace(self.handle, None, 0)
        times = (KernelTimeStruct * max(count, 1))()
        self.native.sim_trace(self.handle, times, count)
        self.native.sim_clear_trace(self.handle)
        return [
            KernelTime(t.rank, t.name.decode(), t.exchange, t.buffers, t.start_ps / 1e6, t.end_ps / 1e6)
            for t in times[:count]
        ]
