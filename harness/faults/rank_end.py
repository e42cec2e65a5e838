"""A rank's Buffer on a planted library, as `harness.faults.part.End` says."""

import ctypes
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from afdep.cuda import Buffer, on_host
from afdep.device_errors import DeviceError
from afdep.errors import MismatchError
from afdep.proof import checks
from harness.faults.part import RoundMismatchError, StuckError, words
from harness.faults.payload import Payloads
from harness.faults.trees import SHIPPED
from harness.faults.trials import NUM_PLACES, Trial

_HELD_CYCLES = 1_000_000
"""The device holds a round until the host has enqueued all of it: so long for each exchange, half a ms at 2 GHz."""

_POLL_S = 0.0005

_UNREADABLE = (MismatchError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError)
"""What is raised over rows that are not as they must be: counts may be anything, and rows lie anywhere."""


class RankEnd:
    """One rank; its making is collective.

    Args:
        trial: what is played.
        library: of the trial.
        payloads: what exchanges hold.
        timeout_s: of one wait on the device.
        stuck_s: when kernels that still run are held to hang.
        meet: meets the other ranks; collective.

    Raises:
        DeviceError: CUDA refused.
    """

    def __init__(
        self,
        trial: Trial,
        library: Path,
        payloads: Payloads,
        timeout_s: float,
        stuck_s: float,
        meet: Callable[[], object],
    ):
        self._trial, self._stuck_s, self._meet = trial, stuck_s, meet
        told = {**trial.world_fields(), "timeout_s": timeout_s, "first_timeout_s": timeout_s}
        self.buffer = Buffer(None, **told, arm=trial.arm, maker="ipc", library=library)
        layout, rank = self.buffer.layout, self.buffer.rank
        self._is_source = self.buffer.role == "attention"
        self._drawn = payloads.of(trial, self.buffer.shape, rank - layout.ffn_ranks if self._is_source else None)
        self._faults = None if trial.library == SHIPPED else _Faults(library)
        is_late = rank == {"first": 0, "last": layout.num_ranks - 1}.get(trial.late_rank, rank)
        if self._faults is not None:
            self._faults.set({trial.place: trial.late_us} if trial.place is not None and is_late else {})
        self._results = self._memory()

    @property
    def digest(self) -> str:
        return str(self.buffer.identity["digest"])

    def told(self) -> Sequence[int]:
        """Numbers of the places that ran."""
        return () if self._faults is None else self._faults.told()

    def play_round(self, number: int) -> int:
        """A round; see End."""
        self._results.fill_(-1)  # the bits of a NaN
        self.buffer.poison(self._trial.shape.tokens)
        self._wait()
        self._meet()  # no peer's first record meets poison that is still to come
        torch.cuda._sleep(_HELD_CYCLES * self._trial.shape.exchanges)
        if self._is_source:
            self._send()
            self._wait()
            return self._compare_collected()
        received = self._serve()
        self._wait()
        return self._compare_received(received)

    def close(self) -> None:
        """Give everything back, whatever the Buffer ended with; collective."""
        self.buffer.close()

    def _memory(self) -> Any:
        """What a round fills: the results of all exchanges of a source, an FFN rank's replies."""
        shape = self._trial.shape
        rows = shape.exchanges * shape.tokens if self._is_source else 1
        return torch.empty((rows, shape.hidden), dtype=torch.int16, device="cuda")

    def _send(self) -> None:
        results = self._results.view(torch.bfloat16).split(self._trial.shape.tokens)
        for (x, ids, weights), y in zip(self._drawn.arguments, results, strict=True):
            self.buffer.source_dispatch(x, ids, weights, self._trial.shape.tokens)
            self.buffer.source_collect(out=y)

    def _serve(self) -> Any:
        received = None
        for _ in range(self._trial.shape.exchanges):
            received = self.buffer.ffn_receive(self._trial.shape.tokens)
            out = torch.empty((len(received.x), self._trial.shape.hidden), dtype=torch.bfloat16, device="cuda")
            self.buffer.expert_transform(received, out)
            self.buffer.ffn_reply(received, out)
        return received

    def _wait(self) -> None:
        """Wait for what is enqueued, however long it takes to say that it hangs; then what the kernels say."""
        done = torch.cuda.Event()
        done.record()
        ends = time.monotonic() + self._stuck_s
        while not done.query():
            if time.monotonic() > ends:
                raise StuckError(f"kernels that still run after {self._stuck_s:.0f} s")
            time.sleep(_POLL_S)
        self.buffer.synchronize()

    def _compare_collected(self) -> int:
        pairs = zip(self._results.split(self._trial.shape.tokens), self._drawn.wanted, strict=True)
        for exact, (found, wanted) in enumerate(pairs):
            if not torch.equal(found, wanted):
                raise RoundMismatchError(exact, f"{_difference(found, wanted)}, exchange {exact + 1} of its round")
        return self._trial.shape.exchanges

    def _compare_received(self, received: Any) -> int:
        """Compare what the last exchange brought, all that is left of a round here: sources compare every exchange."""
        shape = self.buffer.shape
        try:
            checks.check_received(
                on_host(received),
                self._drawn.sent[-1],
                rank=self.buffer.rank,
                num_ffn_ranks=shape.layout.ffn_ranks,
                num_experts=shape.num_experts,
            )
        except _UNREADABLE as error:
            is_named = isinstance(error, MismatchError)
            raise RoundMismatchError(0, words(error) if is_named else f"unreadable rows: {words(error)}") from error
        return self._trial.shape.exchanges


def _difference(found: Any, wanted: Any) -> str:
    rows = (found != wanted).any(dim=1)
    poisoned = (found == -1).all(dim=1) & rows
    return f"{int(rows.sum())} of {len(rows)} collected rows differ, {int(poisoned.sum())} of them unwritten"


class _Faults:
    """The functions that a planted library has beside the usual ones."""

    def __init__(self, library: Path):
        self._library = ctypes.CDLL(str(library))
        self._library.afdep_faults_told.restype = ctypes.POINTER(ctypes.c_uint32)

    def set(self, late_us: dict[int, int]) -> None:
        """Set the delays, by place, and forget what has run. Raises DeviceError."""
        values = (ctypes.c_uint32 * NUM_PLACES)(*(late_us.get(place, 0) for place in range(NUM_PLACES)))
        if self._library.afdep_faults_set(values) != 0:
            self._library.afdep_cuda_error.restype = ctypes.c_char_p
            raise DeviceError(self._library.afdep_cuda_error().decode())

    def told(self) -> tuple[int, ...]:
        words_of_host = self._library.afdep_faults_told()
        return tuple(place for place in range(NUM_PLACES) if words_of_host and words_of_host[place])
